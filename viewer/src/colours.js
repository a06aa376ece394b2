// Values to colours: RGB as it is, numbers along a ramp, categories from a palette.

export const NONE = [150, 150, 150];
export const UNMATCHED = [230, 30, 200];

export function along(ramp, share) {
  const place = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  const part = place - low;
  return [0, 1, 2].map((c) => (1 - part) * ramp[low][c] + part * ramp[low + 1][c]);
}

// Colours of n points, four bytes each; values of a channel are u1 triples, u2 numbers (65535:
// none) or u2 categories (65535: none).
export function paint(colours, channel, values, n) {
  if (!values) {
    for (let i = 0; i < n; i++) colours.set(NONE, 4 * i);
    return;
  }
  if (channel.kind === "rgb") {
    for (let i = 0; i < n; i++)
      for (let c = 0; c < 3; c++) colours[4 * i + c] = values[3 * i + c];
    return;
  }
  const table = new Map([[65535, NONE]]);
  const size = channel.palette?.length;
  for (let i = 0; i < n; i++) {
    let colour = table.get(values[i]);
    if (!colour) {
      colour = channel.kind === "number"
        ? along(channel.ramp, values[i] / 65534)
        : channel.palette[values[i] % size];
      table.set(values[i], colour);
    }
    colours[4 * i] = colour[0];
    colours[4 * i + 1] = colour[1];
    colours[4 * i + 2] = colour[2];
  }
}

export function legend(element, channel) {
  element.replaceChildren();
  const chip = (colour, text) => {
    const box = document.createElement("span");
    box.className = "chip";
    box.style.background = `rgb(${colour.map(Math.round)})`;
    element.append(box, text);
  };
  if (channel.kind === "number") {
    const bar = document.createElement("span");
    bar.className = "ramp";
    const stops = channel.ramp.map((c) => `rgb(${c})`).join(",");
    bar.style.background = `linear-gradient(90deg, ${stops})`;
    element.append(`${channel.label}  ${text(channel.low)}`, bar, text(channel.high));
  } else if (channel.kind === "category") {
    element.append(channel.label);
    channel.names.slice(0, 24).forEach((name, i) => chip(channel.palette[i % channel.palette.length], name));
    if (channel.names.length > 24) element.append(` and ${channel.names.length - 24} more`);
  } else element.append(channel.label);
  if (channel.gaps) chip(NONE, "none");
}

export function valueText(channel, values, i) {
  if (!values || channel.kind === "rgb") return "";
  if (values[i] === 65535) return "none";
  if (channel.kind === "category") return channel.names[values[i]];
  return text(channel.low + (values[i] / 65534) * (channel.high - channel.low));
}

function text(number) {
  return String(Number(number.toPrecision(4)));
}
