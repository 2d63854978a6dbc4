// Accessibility rules, checked on the page as it is.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The accessibility violations that axe finds on the page, or in the element `within`. */
export async function accessibilityViolations(page, within = "html") {
  await page.evaluate(axe);
  const { violations } = await page.evaluate((within) => globalThis.axe.run(within), within);
  return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(" ")}`);
}
