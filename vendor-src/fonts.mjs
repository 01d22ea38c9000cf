// Cut the two fonts of the pages to what they show: Latin in one file, the accented letters of other
// European languages in a second one that browsers load only when a page has such a letter.
// The fonts of PDF files are TrueType, since PDF knows no WOFF2, with Greek and Cyrillic.
// Run by build.sh:  node fonts.mjs <folder of packages> <folder for the fonts>
import { readFile, writeFile } from "node:fs/promises";
import subsetFont from "subset-font";

const [packages, target] = process.argv.slice(2);
const LATIN = [[0x20, 0x7e], [0xa0, 0xff], [0x131, 0x131], [0x152, 0x153], [0x2c6, 0x2c6], [0x2da, 0x2dc],
  [0x2010, 0x2027], [0x202f, 0x203a], [0x2044, 0x2044], [0x20ac, 0x20ac], [0x2122, 0x2122], [0x2190, 0x2193],
  [0x2212, 0x2215]];
const EXTENDED = [[0x100, 0x24f], [0x259, 0x259], [0x1e80, 0x1e85], [0x1e9e, 0x1e9e], [0x1ef2, 0x1ef3]];
const letters = (ranges) =>
  ranges.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, i) => String.fromCodePoint(from + i))).join("");

const FONTS = [
  ["source-sans-3", "latin-wght-normal", LATIN, { min: 400, max: 700, default: 400 }, "source-sans"],
  ["source-sans-3", "latin-ext-wght-normal", EXTENDED, { min: 400, max: 700, default: 400 }, "source-sans-ext"],
  ["source-serif-4", "latin-wght-normal", LATIN, { min: 400, max: 700, default: 400 }, "source-serif"],
  ["source-serif-4", "latin-ext-wght-normal", EXTENDED, { min: 400, max: 700, default: 400 }, "source-serif-ext"],
  ["source-serif-4", "latin-wght-italic", LATIN, 400, "source-serif-italic"],
];

for (const [family, file, ranges, wght, name] of FONTS) {
  const font = await readFile(`${packages}/@fontsource-variable/${family}/files/${family}-${file}.woff2`);
  const options = { targetFormat: "woff2", variationAxes: { wght } };
  await writeFile(`${target}/${name}.woff2`, await subsetFont(font, letters(ranges), options));
}

// --- The fonts of PDF files ---

const PDF = [[0x20, 0x7e], [0xa0, 0x24f], [0x259, 0x259], [0x2bb, 0x2bc], [0x300, 0x36f], [0x370, 0x3ff], [0x400, 0x52f],
  [0x1e00, 0x1eff], [0x2010, 0x2027], [0x202f, 0x205e], [0x2070, 0x209f], [0x20a0, 0x20bf], [0x2100, 0x214f],
  [0x2150, 0x218b], [0x2190, 0x21ff], [0x2200, 0x22ff], [0x25a0, 0x25ff], [0x2610, 0x2612], [0x2713, 0x2717]];
const STYLES = [["Regular", "source-sans-pdf"], ["Bold", "source-sans-pdf-bold"], ["It", "source-sans-pdf-italic"]];
const UNUSED = new Set(["GSUB", "GPOS", "GDEF", "BASE", "gasp"]); // reportlab reads none of them

const sum = (table) => {
  let total = 0;
  for (let at = 0; at < table.length; at += 4) total = (total + Buffer.concat([table.subarray(at, at + 4), Buffer.alloc(4)]).readUInt32BE(0)) >>> 0;
  return total;
};

// The licence reserves the name “Source” for Adobe's own files. “Beacon” is as long, so that no offset changes.
const renamed = (name) => {
  const table = Buffer.from(name);
  const strings = table.readUInt16BE(4);
  for (let record = 6; record < 6 + 12 * table.readUInt16BE(2); record += 12) {
    if (table.readUInt16BE(record + 6) === 0) continue; // the copyright notice
    const from = strings + table.readUInt16BE(record + 10);
    const to = from + table.readUInt16BE(record + 8);
    for (const encoding of ["latin1", "utf16le"]) {
      const [old, ours] = ["Source", "Beacon"].map((word) => Buffer.from(word, encoding));
      if (encoding === "utf16le") { old.swap16(); ours.swap16(); }
      for (let at = table.indexOf(old, from); at >= 0 && at < to; at = table.indexOf(old, at + 1)) ours.copy(table, at);
    }
  }
  return table;
};

const forPdf = (font) => {
  const tables = [];
  for (let n = 0; n < font.readUInt16BE(4); n++) {
    const at = 12 + 16 * n;
    const tag = font.toString("latin1", at, at + 4);
    const table = font.subarray(font.readUInt32BE(at + 8), font.readUInt32BE(at + 8) + font.readUInt32BE(at + 12));
    if (!UNUSED.has(tag)) tables.push([tag, tag === "name" ? renamed(table) : Buffer.from(table)]);
  }
  const power = 2 ** Math.floor(Math.log2(tables.length));
  const header = Buffer.alloc(12 + 16 * tables.length);
  font.copy(header, 0, 0, 4);
  [tables.length, power * 16, Math.log2(power), (tables.length - power) * 16].forEach((n, i) => header.writeUInt16BE(n, 4 + 2 * i));
  const parts = [header];
  let offset = header.length;
  tables.forEach(([tag, table], n) => {
    if (tag === "head") table.writeUInt32BE(0, 8);
    header.write(tag, 12 + 16 * n, "latin1");
    [sum(table), offset, table.length].forEach((value, i) => header.writeUInt32BE(value, 16 + 16 * n + 4 * i));
    const padded = Buffer.concat([table, Buffer.alloc(-table.length & 3)]);
    parts.push(padded);
    offset += padded.length;
  });
  const head = parts[1 + tables.findIndex(([tag]) => tag === "head")];
  head.writeUInt32BE((0xb1b0afba - sum(Buffer.concat(parts))) >>> 0, 8);
  return Buffer.concat(parts);
};

for (const [style, name] of STYLES) {
  const font = await readFile(`${packages}/source-sans/TTF/SourceSans3-${style}.ttf`);
  const options = { targetFormat: "truetype", noLayoutClosure: true };
  await writeFile(`${target}/${name}.ttf`, forPdf(await subsetFont(font, letters(PDF), options)));
}
