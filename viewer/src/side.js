// One of the two shapes: its scene, its camera, and what lies under a place of its panel.

import {
  BufferAttribute, BufferGeometry, Color, DoubleSide, GLSL3, Group, Mesh, NoBlending,
  PerspectiveCamera, Points, Scene, ShaderMaterial, Vector2, Vector3, WebGLRenderTarget,
} from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";

const WINDOW = 61; // pixels around the pointer in which a point is looked for
const BEHIND = 0.06; // of the shape's size: points further behind the front one are hidden

const SHADED = `
  float long_ = length(facing); // 0 for points that have no normal
  float light = abs(dot(facing, normalize(vec3(-0.35, 0.45, 0.82)))) / max(long_, 1e-6);
  float shade = long_ < 1e-6 ? 1.0 : 0.52 + 0.5 * light;`;

const POINT_VERTEX = `
  uniform float size; uniform float scale; uniform float least; uniform float nearer;
  in vec3 tint; out vec3 colour; out vec3 facing; flat out uint id;
  void main() {
    colour = tint;
    facing = normalMatrix * normal;
    id = uint(gl_VertexID) + 1u;
    vec4 place = modelViewMatrix * vec4(position, 1.0);
    gl_Position = projectionMatrix * place;
    gl_Position.z -= nearer * gl_Position.w;
    gl_PointSize = clamp(size * scale / -place.z, least, 64.0);
  }`;

const POINT_FRAGMENT = `
  in vec3 colour; in vec3 facing; out vec4 pixel;
  void main() {
    if (length(gl_PointCoord - 0.5) > 0.5) discard;
    ${SHADED}
    pixel = vec4(colour * shade, 1.0);
  }`;

const MESH_VERTEX = `
  in vec3 tint; out vec3 colour; out vec3 facing;
  void main() {
    colour = tint;
    facing = normalMatrix * normal;
    gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
  }`;

const MESH_FRAGMENT = `
  in vec3 colour; in vec3 facing; out vec4 pixel;
  void main() { ${SHADED} pixel = vec4(colour * shade, 1.0); }`;

const ID_FRAGMENT = `
  flat in uint id; out vec4 pixel;
  void main() {
    if (length(gl_PointCoord - 0.5) > 0.5) discard;
    pixel = vec4(uvec4(id & 255u, (id >> 8u) & 255u, (id >> 16u) & 255u, 255u)) / 255.0;
  }`;

const NOTHING_FRAGMENT = `out vec4 pixel; void main() { pixel = vec4(0.0); }`;

// Rows in an order of which every beginning is spread over the shape; the same each time.
function shuffled(n) {
  const rows = Uint32Array.from({ length: n }, (_, i) => i);
  let state = 1;
  for (let i = n - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 4294967296) * (i + 1));
    const row = rows[i];
    rows[i] = rows[j];
    rows[j] = row;
  }
  return rows;
}

function material(vertexShader, fragmentShader, uniforms, more = {}) {
  return new ShaderMaterial({ vertexShader, fragmentShader, uniforms, glslVersion: GLSL3, ...more });
}

export class Side {
  constructor(facts, array, panel, changed) {
    this.facts = facts;
    this.panel = panel;
    this.n = facts.shown;
    this.rows = array(facts.rows); // file row of each shown point; null if all are shown
    this.uniforms = {
      size: { value: facts.spacing }, scale: { value: 1 }, least: { value: 1.5 },
      nearer: { value: 0 },
    };
    this._build(array);
    this.camera = new PerspectiveCamera(30, 1, 0.01, 100);
    this.controls = new OrbitControls(this.camera, panel);
    this.controls.addEventListener("change", changed);
    this.reset();
  }

  _build(array) {
    const stored = array(this.facts.positions);
    const { low, step } = this.facts;
    this.positions = new Float32Array(3 * this.n);
    for (let i = 0; i < 3 * this.n; i++) this.positions[i] = low[i % 3] + step * stored[i];
    this.colours = new Uint8Array(4 * this.n).fill(255);
    this.tint = new BufferAttribute(this.colours, 4, true);
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(this.positions, 3));
    geometry.setAttribute("tint", this.tint);
    geometry.setIndex(new BufferAttribute(shuffled(this.n), 1));
    this.points = new Points(geometry, material(POINT_VERTEX, POINT_FRAGMENT, this.uniforms));
    this.group = new Group();
    this.scene = new Scene();
    this.scene.add(this.group.add(this.points));
    const faces = array(this.facts.faces);
    if (faces) {
      const surface = new BufferGeometry();
      surface.setAttribute("position", geometry.getAttribute("position"));
      surface.setAttribute("tint", this.tint);
      surface.setIndex(new BufferAttribute(faces, 1));
      surface.computeVertexNormals();
      geometry.setAttribute("normal", surface.getAttribute("normal"));
      const look = material(MESH_VERTEX, MESH_FRAGMENT, this.uniforms, { side: DoubleSide });
      this.mesh = new Mesh(surface, look);
      this.group.add(this.mesh);
    } else if (this.facts.normals) {
      geometry.setAttribute("normal", new BufferAttribute(array(this.facts.normals), 3, true));
    }
    for (const part of this.group.children) part.frustumCulled = false;
    this.ids = material(POINT_VERTEX, ID_FRAGMENT, { ...this.uniforms, nearer: { value: 2e-4 }, least: { value: 3 } }, { blending: NoBlending });
    this.nothing = material(MESH_VERTEX, NOTHING_FRAGMENT, this.uniforms, { side: DoubleSide, blending: NoBlending });
    this.target = new WebGLRenderTarget(WINDOW, WINDOW);
    this.surface(true);
  }

  // Draw a share of the points only, evenly taken, each larger: while the camera moves.
  thin(share) {
    this.points.geometry.setDrawRange(0, Math.ceil(share * this.n));
    this.uniforms.size.value /= Math.sqrt(share);
  }

  surface(on) {
    if (this.mesh) this.mesh.visible = on;
    this.points.visible = !(on && this.mesh);
  }

  fileRow(i) { return this.rows ? this.rows[i] : i; }

  shownRow(row) { // the shown point of a file row, or -1
    if (!this.rows) return row >= 0 && row < this.n ? row : -1;
    let low = 0, high = this.n; // rows ascend
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle] < row) low = middle + 1; else high = middle;
    }
    return this.rows[low] === row ? low : -1;
  }

  up(axis) {
    this.group.rotation.set(axis === "z" ? -Math.PI / 2 : 0, 0, axis === "x" ? Math.PI / 2 : 0);
    this.group.updateMatrixWorld(true);
  }

  reset() {
    this.camera.position.set(0.48, 0.26, 1.85);
    this.controls.target.set(0, 0, 0);
    this.camera.zoom = 1;
    this.controls.update();
  }

  follow(other) {
    this.camera.position.copy(other.camera.position);
    this.camera.quaternion.copy(other.camera.quaternion);
    this.controls.target.copy(other.controls.target);
  }

  rectangle(stage) { // of the panel in the stage, CSS pixels
    const outer = stage.getBoundingClientRect(), box = this.panel.getBoundingClientRect();
    return { x: box.left - outer.left, y: box.top - outer.top, w: box.width, h: box.height };
  }

  aim(rectangle) {
    this.camera.aspect = rectangle.w / rectangle.h;
    this.camera.fov = this.camera.aspect < 0.6 ? 30 * (0.6 / this.camera.aspect) : 30;
    this.camera.updateProjectionMatrix();
    this.camera.updateMatrixWorld();
    this.uniforms.scale.value = this.pixels(rectangle.h);
  }

  pixels(height) { // that a length of 1 at distance 1 takes
    return height / (2 * Math.tan((this.camera.fov * Math.PI) / 360));
  }

  project(i, rectangle) { // place of a point in the panel, CSS pixels, and its distance
    const place = new Vector3().fromArray(this.positions, 3 * i).applyMatrix4(this.group.matrixWorld);
    const far = place.distanceTo(this.camera.position);
    place.project(this.camera);
    return { x: ((place.x + 1) / 2) * rectangle.w, y: ((1 - place.y) / 2) * rectangle.h, far, in: place.z < 1 };
  }

  // The shown point under a place of the panel, or -1: of those in the window and not hidden
  // behind others, the one whose picture is nearest.
  pick(renderer, rectangle, x, y) {
    this.aim(rectangle);
    const half = (WINDOW - 1) / 2;
    this.camera.setViewOffset(rectangle.w, rectangle.h, x - half, y - half, WINDOW, WINDOW);
    this.points.geometry.setDrawRange(0, this.n);
    const kept = [this.points.material, this.points.visible, this.mesh && this.mesh.material];
    this.points.material = this.ids;
    this.points.visible = true;
    if (this.mesh) this.mesh.material = this.nothing;
    const colour = renderer.getClearColor(new Color()), alpha = renderer.getClearAlpha();
    renderer.setClearColor(0, 0);
    renderer.setRenderTarget(this.target);
    renderer.setScissorTest(false);
    renderer.clear();
    renderer.render(this.scene, this.camera);
    const pixels = new Uint8Array(4 * WINDOW * WINDOW);
    renderer.readRenderTargetPixels(this.target, 0, 0, WINDOW, WINDOW, pixels);
    renderer.setRenderTarget(null);
    renderer.setClearColor(colour, alpha);
    [this.points.material, this.points.visible] = kept;
    if (this.mesh) this.mesh.material = kept[2];
    this.camera.clearViewOffset();
    const seen = new Set();
    for (let p = 0; p < pixels.length; p += 4)
      if (pixels[p + 3]) seen.add(pixels[p] + 256 * pixels[p + 1] + 65536 * pixels[p + 2] - 1);
    return this._nearest(seen, rectangle, new Vector2(x, y));
  }

  _nearest(seen, rectangle, pointer) {
    const found = [...seen].map((i) => ({ i, ...this.project(i, rectangle) }));
    for (const one of found) one.off = Math.hypot(one.x - pointer.x, one.y - pointer.y);
    const near = found.filter((one) => one.off <= WINDOW / 2);
    // what is in front is judged among the points close by only: a window may span a gap
    const closest = Math.min(...near.map((one) => one.off));
    const close = near.filter((one) => one.off <= closest + 6);
    const front = Math.min(...close.map((one) => one.far));
    const open = close.filter((one) => one.far <= front + BEHIND);
    open.sort((a, b) => a.off - b.off || a.i - b.i);
    return open.length ? open[0].i : -1;
  }
}
