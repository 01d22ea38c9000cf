// Cut the two fonts of the pages to what they show: Latin in one file, the accented letters of other
// European languages in a second one that browsers load only when a page has such a letter.
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
