// Every state of the buyers' pages on every screen, in both colours and languages, as contact sheets in `browser-pictures`
// of Cargo's target directory; nothing is wider than its box, and the bar at the bottom stays where it is.

import { mkdir, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { targetDirectory } from "../support/app.js";
import { openState, overflows, STATES } from "../support/states.js";
import { expect, test } from "../support/test.js";

const SCREENS = { phone: { width: 390, height: 844 }, tablet: { width: 820, height: 1_180 }, desktop: { width: 1_280, height: 800 } };

/** The pictures in a row of a contact sheet, the rows, and the width of a sheet. */
const SHEET = { columns: { phone: 7, tablet: 5, desktop: 4 }, rows: 2, width: 1_560 };

const folder = resolve(targetDirectory, "browser-pictures");

/** Without `STAMPEDE_PICTURES=all`: each kind on each screen once, both colours and languages among them. */
const SOME = {
  list: ["phone, dark, en", "tablet, light, en", "desktop, light, zh"], sale: ["phone, light, en", "tablet, light, zh", "desktop, dark, en"],
  order: ["phone, light, zh", "tablet, dark, en", "desktop, light, en"], orders: ["phone, light, en", "tablet, dark, zh", "desktop, dark, en"],
  element: ["phone, dark, zh", "desktop, light, en"],
};

for (const [kind, states] of Object.entries(STATES)) {
  for (const [screen, viewport] of Object.entries(SCREENS)) {
    for (const colorScheme of ["light", "dark"]) {
      for (const locale of ["en-GB", "zh-CN"]) {
        const how = `${screen}, ${colorScheme}, ${locale.slice(0, 2)}`;
        if (process.env.STAMPEDE_PICTURES !== "all" && !SOME[kind].includes(how)) continue;
        const name = `${kind}, ${how}`;
        test(`the pictured states have room: ${name}`, async ({ newPage }) => {
          const page = await newPage("/robots.txt", { viewport, colorScheme, locale, hasTouch: screen !== "desktop" });
          const [pictures, problems, bars] = [[], [], new Set()];
          for (const state of states) {
            await openState(page, state).catch((error) => problems.push(`${state.name}: ${error.message}`));
            problems.push(...(await page.evaluate(overflows)).map((problem) => `${state.name}: ${problem}`));
            const bar = await page.locator(".action-bar:visible").evaluateAll((nodes) => nodes.flatMap((node) => [node, node.querySelector(".button.primary")])
              .map((node) => Object.values(node.getBoundingClientRect().toJSON()).map(Math.round).join(" ")).join());
            if (bar) bars.add(bar);
            // A screen as high as the page: the bar is at its bottom.
            if (state.isFull) await page.setViewportSize({ ...viewport, height: Math.max(viewport.height, await page.evaluate(() => document.documentElement.scrollHeight)) });
            await page.waitForFunction(() => [...document.images].every((image) => image.complete));
            const image = await page.screenshot({ type: "jpeg", quality: 80, animations: "disabled", scale: "css" });
            pictures.push([state.name, image.toString("base64")]);
            await page.setViewportSize(viewport);
            await page.unroute("**/order?*");
          }
          await writeSheets(page, name, pictures, SHEET.columns[screen]);
          expect(problems).toEqual([]);
          expect([...bars].length, `the boxes of the bar: ${[...bars]}`).toBeLessThanOrEqual(1);
        });
      }
    }
  }
}

/** Writes pictures of the pictures. */
async function writeSheets(page, name, pictures, columns) {
  const width = Math.floor(SHEET.width / columns) - 8;
  const style = `body { margin: 8px 0 0 8px; background: #888; display: flex; flex-wrap: wrap; align-items: start; gap: 8px; font: 13px sans-serif }
    figure { margin: 0; width: ${width}px } img { width: 100%; max-height: ${4.5 * width}px; object-fit: cover; object-position: top; display: block }
    figcaption { padding: 2px 4px; background: #fff }`;
  await mkdir(folder, { recursive: true });
  await page.goto("about:blank");
  await page.setViewportSize({ width: SHEET.width + 8, height: 600 });
  for (let from = 0, size = columns * SHEET.rows; from < pictures.length; from += size) {
    const figures = pictures.slice(from, from + size)
      .map(([title, image]) => `<figure><img src="data:image/jpeg;base64,${image}"><figcaption>${title}</figcaption></figure>`);
    await page.setContent(`<style>${style}</style>${figures.join("")}`);
    await writeFile(resolve(folder, `${name}, ${1 + from / size}.png`), await page.screenshot({ fullPage: true, scale: "css" }));
  }
}
