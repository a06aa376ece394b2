// Writes ../src/coembed/data/viewer.html: page, style, script and licences in one file.
// The same versions (package-lock.json) give the same bytes.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";

const common = { bundle: true, minify: true, write: false, charset: "ascii", legalComments: "none" };
const script = await build({ ...common, entryPoints: ["src/main.js"], format: "iife", target: "es2022" });
const style = await build({ ...common, entryPoints: ["src/style.css"] });
const page = await readFile("src/page.html", "utf8");
const licence = await readFile("node_modules/three/LICENSE", "utf8");
const version = JSON.parse(await readFile("node_modules/three/package.json", "utf8")).version;

const parts = {
  LICENCE: `three.js ${version}, https://threejs.org\n\n${licence.trim()}`,
  STYLE: style.outputFiles[0].text.trim(),
  SCRIPT: script.outputFiles[0].text.trim().replaceAll("</script", "<\\/script"),
};
// a function, since "$" in a replacement string has a meaning of its own
const whole = page.replace(/\{\{(LICENCE|STYLE|SCRIPT)\}\}/g, (_, name) => parts[name]);
await writeFile("../src/coembed/data/viewer.html", whole);
console.log(`viewer.html: ${Math.round(whole.length / 1000)} kB`);
