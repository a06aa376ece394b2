// Two shapes side by side, the map between them under the pointer.

import { Color, WebGLRenderer } from "three";
import { legend, paint, UNMATCHED, valueText } from "./colours.js";
import { load } from "./data.js";
import { Side } from "./side.js";

const get = (id) => document.getElementById(id);
const MOST_PARTNERS = 40; // drawn for one point
const FRAME = 40, LEAST = 0.04; // ms that a frame may take in motion; least share of the points
const REST = 160; // ms after a motion until all points are drawn

class Viewer {
  constructor(facts, array) {
    this.facts = facts;
    this.stage = get("stage");
    this.renderer = new WebGLRenderer({ canvas: get("scene"), antialias: true });
    this.renderer.autoClear = false;
    const panels = document.querySelectorAll(".panel");
    this.sides = facts.sides.map((one, s) => new Side(one, array, panels[s], () => this.moved(s)));
    this.there = array(facts.map); // shown target point of each shown source point, or -1
    this.hits = array(facts.hits); // how many rows of the file end at a shown target point
    this.invert();
    this.channels = facts.channels.map((one) => ({ ...one, values: one.values.map(array) }));
    this.held = this.hovered = null;
    this.share = 1; // of the points that is drawn in motion
    this.motion = 0; // when the camera last moved
    panels.forEach((panel, s) => {
      panel.querySelector("h2").textContent = facts.sides[s].title;
      this.listen(panel, s);
    });
    this.controls();
    new ResizeObserver(() => this.resize()).observe(this.stage);
    this.resize();
    this.fromAddress();
  }

  invert() { // starts and list of the source points that end at each target point
    const n = this.sides[1].n;
    this.starts = new Uint32Array(n + 1);
    for (const end of this.there) if (end >= 0) this.starts[end + 1]++;
    for (let i = 0; i < n; i++) this.starts[i + 1] += this.starts[i];
    const next = this.starts.slice(0, n);
    this.list = new Uint32Array(this.starts[n]);
    this.there.forEach((end, i) => { if (end >= 0) this.list[next[end]++] = i; });
  }

  partners(s, i) {
    if (s === 0) return this.there[i] < 0 ? [] : [this.there[i]];
    return Array.from(this.list.subarray(this.starts[i], this.starts[i + 1]));
  }

  matched(s, i) {
    if (s === 0) return this.there[i] >= 0;
    return this.hits ? this.hits[i] > 0 : this.starts[i + 1] > this.starts[i];
  }

  // ------------------------------------------------------------------------------- controls

  controls() {
    const select = get("colour");
    for (const channel of this.channels) select.add(new Option(channel.label));
    select.onchange = () => this.colour();
    get("unmatched").onchange = () => this.colour();
    get("lines").oninput = get("linked").onchange = () => this.again();
    get("surface").onchange = (event) => {
      for (const side of this.sides) side.surface(event.target.checked);
      this.again();
    };
    get("surfaces").hidden = !this.sides.some((side) => side.mesh);
    get("size").oninput = () => this.again();
    get("dark").onchange = () => this.theme();
    get("dark").checked = matchMedia("(prefers-color-scheme: dark)").matches;
    get("up").value = this.facts.up;
    get("up").onchange = () => this.up();
    get("row").onchange = get("side").onchange = () => this.ask();
    get("reset").onclick = () => { for (const side of this.sides) side.reset(); this.again(); };
    get("help").onclick = () => { get("keys").hidden = !get("keys").hidden; };
    get("notes").textContent = this.facts.notes.join(" · ");
    document.addEventListener("keydown", (event) => this.key(event));
    this.theme();
    this.up();
    this.colour();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (["INPUT", "SELECT"].includes(event.target.tagName) && event.key !== "Escape") return;
    const slide = (id, by) => { get(id).value = Number(get(id).value) + by; get(id).dispatchEvent(new Event("input")); };
    const turn = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const box = { u: "unmatched", s: "surface", k: "linked", d: "dark" }[event.key];
    if (event.key >= "1" && event.key <= "9" && this.channels[event.key - 1]) {
      get("colour").selectedIndex = event.key - 1;
      this.colour();
    } else if (box) get(box).click();
    else if (turn) this.turn(...turn);
    else if (event.key === "+" || event.key === "=") slide("size", 2);
    else if (event.key === "-") slide("size", -2);
    else if (event.key === "l") { get("lines").value = Number(get("lines").value) ? 0 : 40; this.again(); }
    else if (event.key === "r") get("reset").click();
    else if (event.key === "?") get("help").click();
    else if (event.key === "Escape") { this.held = this.hovered = null; get("keys").hidden = true; this.tell(); }
    else return;
    event.preventDefault();
  }

  turn(right, over) {
    const side = this.sides[document.activeElement === this.sides[1].panel ? 1 : 0];
    const { camera, controls } = side;
    const way = camera.position.clone().sub(controls.target);
    const far = way.length(), polar = Math.acos(way.y / far), around = Math.atan2(way.x, way.z);
    const tilt = Math.min(Math.max(polar - 0.1 * over, 0.05), Math.PI - 0.05);
    const angle = around + 0.1 * right;
    way.set(Math.sin(tilt) * Math.sin(angle), Math.cos(tilt), Math.sin(tilt) * Math.cos(angle));
    camera.position.copy(controls.target).addScaledVector(way, far);
    controls.update();
  }

  listen(panel, s) {
    let down = null;
    const at = (event) => {
      const box = panel.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    panel.addEventListener("pointermove", (event) => {
      if (event.buttons) return;
      this.waiting = [s, ...at(event)];
      this.again();
    });
    panel.addEventListener("pointerleave", () => { this.waiting = null; this.hovered = null; this.tell(); });
    panel.addEventListener("pointerdown", (event) => { down = at(event); });
    panel.addEventListener("pointerup", (event) => {
      const [x, y] = at(event);
      if (!down || Math.hypot(x - down[0], y - down[1]) > 4) return; // it was a turn
      const i = this.under(s, x, y);
      this.held = i < 0 ? null : [s, i];
      this.tell();
    });
  }

  ask() {
    const s = Number(get("side").value), row = get("row").value;
    if (row === "") return;
    const i = this.sides[s].shownRow(Number(row));
    this.held = i < 0 ? null : [s, i];
    this.tell();
    if (i < 0) get("picked").textContent = `${["source", "target"][s]} row ${row} is not shown`;
  }

  fromAddress() { // #source=17 or #target=4: that row is held
    const found = /^#(source|target)=(\d+)$/.exec(location.hash);
    if (!found) return;
    get("side").value = found[1] === "source" ? 0 : 1;
    get("row").value = found[2];
    this.ask();
  }

  // -------------------------------------------------------------------------------- looking

  theme() {
    document.documentElement.classList.toggle("dark", get("dark").checked);
    this.renderer.setClearColor(new Color(get("dark").checked ? "#15171a" : "#ffffff"), 1);
    this.again();
  }

  up() {
    for (const side of this.sides) side.up(get("up").value);
    this.again();
  }

  colour() {
    const channel = this.channels[get("colour").selectedIndex];
    this.sides.forEach((side, s) => {
      paint(side.colours, channel, channel.values[s], side.n);
      if (get("unmatched").checked)
        for (let i = 0; i < side.n; i++) if (!this.matched(s, i)) side.colours.set(UNMATCHED, 4 * i);
      side.tint.needsUpdate = true;
    });
    legend(get("legend"), channel);
    if (get("unmatched").checked) {
      const text = this.facts.sides.map((one, s) => `${["source", "target"][s]} ${one.unmatched}`).join(", ");
      const box = document.createElement("span");
      box.className = "chip";
      box.style.background = `rgb(${UNMATCHED})`;
      get("legend").append(box, `unmatched: ${text}`);
    }
    this.tell();
  }

  moved(s) {
    if (!this.sides) return; // a side is being made
    if (get("linked").checked) this.sides[1 - s].follow(this.sides[s]);
    this.motion = performance.now();
    this.again();
  }

  resize() {
    const { clientWidth, clientHeight } = this.stage;
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    this.renderer.setSize(clientWidth, clientHeight, false);
    const overlay = get("overlay");
    overlay.width = clientWidth * devicePixelRatio;
    overlay.height = clientHeight * devicePixelRatio;
    this.again();
  }

  again() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      if (this.waiting) {
        const [s, x, y] = this.waiting;
        this.waiting = null;
        const i = this.under(s, x, y);
        this.hovered = i < 0 ? null : [s, i];
        this.tell();
      }
      const moving = performance.now() - this.motion < REST;
      this.draw(moving ? this.share : 1);
      if (!moving) return;
      this.adapt();
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.again(), REST);
    });
  }

  adapt() { // fewer points in motion where frames come too slowly, more where there is time
    const now = performance.now(), took = now - (this.previous ?? now);
    this.previous = now;
    if (took <= 0 || took > 2000) return; // the first one
    const fitting = this.share * Math.min(Math.max(FRAME / took, 0.3), 1.5);
    this.share = Math.min(1, Math.max(LEAST, fitting));
  }

  under(s, x, y) {
    return this.sides[s].pick(this.renderer, this.sides[s].rectangle(this.stage), x, y);
  }

  draw(share = 1) {
    const { renderer } = this;
    renderer.setScissorTest(false);
    renderer.clear();
    renderer.setScissorTest(true);
    for (const side of this.sides) {
      const box = side.rectangle(this.stage);
      const bottom = this.stage.clientHeight - box.y - box.h;
      side.aim(box);
      side.uniforms.size.value = side.facts.spacing * 2 ** (Number(get("size").value) / 6);
      side.thin(share);
      side.uniforms.scale.value *= renderer.getPixelRatio();
      renderer.setViewport(box.x, bottom, box.w, box.h);
      renderer.setScissor(box.x, bottom, box.w, box.h);
      renderer.render(side.scene, side.camera);
    }
    this.overlay();
  }

  overlay() {
    const canvas = get("overlay"), pen = canvas.getContext("2d");
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const boxes = this.sides.map((side) => side.rectangle(this.stage));
    const at = (s, i) => {
      const place = this.sides[s].project(i, boxes[s]);
      return [place.x + boxes[s].x, place.y + boxes[s].y];
    };
    const line = (i, j, style, width) => {
      pen.strokeStyle = style;
      pen.lineWidth = width;
      pen.beginPath();
      pen.moveTo(...at(0, i));
      pen.lineTo(...at(1, j));
      pen.stroke();
    };
    this.lines().forEach((i) => {
      const colour = Array.from(this.sides[0].colours.subarray(4 * i, 4 * i + 3));
      line(i, this.there[i], `rgba(${colour},0.75)`, 1.2);
    });
    const chosen = this.held ?? this.hovered;
    if (!chosen) return;
    const [s, i] = chosen;
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    const ring = (x, y, radius, fill) => {
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fillStyle = fill;
      pen.fill();
      pen.lineWidth = 2;
      pen.strokeStyle = "#fff";
      pen.stroke();
      pen.lineWidth = 1;
      pen.strokeStyle = "#000";
      pen.stroke();
    };
    for (const j of this.partners(s, i).slice(0, MOST_PARTNERS)) {
      if (s === 0) line(i, j, ink, 1); else line(j, i, ink, 1);
      ring(...at(1 - s, j), 5, "#ff9d00");
    }
    ring(...at(s, i), 6, "#ffe600");
  }

  lines() { // matched source points, evenly spaced among the shown ones
    const k = Number(get("lines").value);
    if (!k) return [];
    this.answered ??= Array.from(this.there.keys()).filter((i) => this.there[i] >= 0);
    const all = this.answered, n = Math.min(k, all.length);
    return Array.from({ length: n }, (_, i) => all[Math.floor(((i + 0.5) * all.length) / n)]);
  }

  tell() { // in words what is under the pointer
    const chosen = this.held ?? this.hovered, element = get("picked");
    element.textContent = "";
    delete element.dataset.side;
    this.again();
    if (!chosen) return;
    const [s, i] = chosen, names = ["source", "target"];
    const partners = this.partners(s, i), other = this.sides[1 - s];
    const rows = partners.map((j) => other.fileRow(j));
    Object.assign(element.dataset, { side: names[s], row: this.sides[s].fileRow(i), partners: rows.join(" ") });
    let words = `${names[s]} row ${this.sides[s].fileRow(i)}`;
    if (s === 0) words += rows.length ? ` → target row ${rows[0]}` : " has no match";
    else {
      const total = this.hits ? this.hits[i] : rows.length;
      words += total ? ` ← source row${total > 1 ? "s" : ""} ${rows.slice(0, 8).join(", ")}` : ": no source row ends here";
      if (total > Math.min(rows.length, 8)) words += ` (${total} in all)`;
    }
    const values = this.channels
      .map((channel) => [channel.label, valueText(channel, channel.values[s], i)])
      .filter(([, value]) => value !== "")
      .slice(0, 6)
      .map(([label, value]) => `${label} ${value}`);
    element.textContent = [words, values.join(", ")].filter(Boolean).join("\n");
  }

  // -------------------------------------------------------------------------------- judging

  // Seconds a frame takes while the camera turns; for measurements.
  time(frames, share) {
    const pixel = new Uint8Array(4), gl = this.renderer.getContext();
    const started = performance.now();
    for (let i = 0; i < frames; i++) {
      this.turn(1, 0);
      this.draw(share ?? this.share);
      if (share === undefined) this.adapt();
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel); // waits for the frame
    }
    return (performance.now() - started) / 1000 / frames;
  }

  // Where a file row is in the window, CSS pixels.
  place(s, row) {
    const side = this.sides[s], box = side.panel.getBoundingClientRect();
    side.aim(side.rectangle(this.stage));
    const { x, y } = side.project(side.shownRow(row), { w: box.width, h: box.height });
    return { x: box.left + x, y: box.top + y };
  }
}

load()
  .then(({ facts, array }) => {
    window.coembed = new Viewer(facts, array);
    document.body.dataset.state = "ready";
  })
  .catch((error) => {
    document.body.dataset.state = "failed";
    get("picked").textContent = `This page cannot be shown: ${error.message}`;
    throw error;
  });
