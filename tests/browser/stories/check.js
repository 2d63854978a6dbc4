// The human check on a sale page (B5): ALTCHA's real widget and visual puzzles.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { call, publish, unique } from "../support/app.js";
import { buyNow, openSale, recordText, signInOnPage, untilCanBuy } from "../support/page.js";
import { expect, test } from "../support/test.js";

test("ALTCHA's widget solves the proof of work, and the ticket buys", { tag: "@phone" }, async ({ page, words }) => {
  const { id } = await publish({ human_check: "pow" });
  await page.goto(`/sale?activity=${id}`);
  const asked = page.waitForRequest(/\/ticket$/);
  const widget = await recordText(page.locator("#check"));
  await signInOnPage(page, unique("pia"));
  await widget.untilShown(words["check.verified"]);
  const { altcha } = (await asked).postDataJSON();
  const { challenge, solution } = JSON.parse(Buffer.from(altcha, "base64"));
  expect(challenge.parameters.algorithm).toBe("PBKDF2/SHA-256");
  expect(solution.derivedKey.startsWith(challenge.parameters.keyPrefix)).toBe(true);
  await buyNow(page);
});

test("the unmodified widget accepts the challenge as the server sends it", async ({ page }) => {
  const { id } = await publish({ human_check: "pow" });
  const { token } = await call("POST", "/sandbox/sign-in", { body: { user: unique("raw") } });
  await page.goto("/");
  // Loads the package's own file in an empty page. Only `fetch` is configured: POST, with a token.
  await page.context().route("**/widget.js", (route) =>
    route.fulfill({ contentType: "text/javascript", body: packageFile("dist/main/altcha.min.js") }));
  await page.context().route("**/widget.html", (route) =>
    route.fulfill({ contentType: "text/html", body: "<!doctype html><script type=module src=/widget.js></script>" }));
  await page.goto("/widget.html");
  const payload = await page.evaluate(solve, { url: `/api/activities/${id}/challenge`, token });
  const { ticket } = await call("POST", `/api/activities/${id}/ticket`, { token, body: { altcha: payload } });
  expect(ticket).toMatch(/^1\./);
});

// Runs in the page.
async function solve({ url, token }) {
  await customElements.whenDefined("altcha-widget");
  const widget = document.createElement("altcha-widget");
  widget.setAttribute("challenge", url);
  document.body.append(widget);
  await new Promise((resolve) => requestAnimationFrame(resolve));
  widget.configure({
    fetch: (url) => fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ altcha: 2 }),
    }),
  });
  const { payload } = await widget.verify();
  widget.remove();
  return payload;
}

test("the vendored files of ALTCHA's widget equal those of its package", () => {
  const vendored = (name) => readFileSync(new URL(`../../../static/assets/vendor/altcha/${name}`, import.meta.url), "utf8");
  expect(vendored("altcha.js")).toBe(packageFile("dist/external/altcha.min.js"));
  expect(vendored("altcha.css")).toBe(packageFile("dist/external/altcha.css"));
  expect(vendored("pbkdf2.js")).toBe(packageFile("dist/workers/pbkdf2.js"));
});

function packageFile(file) {
  const main = createRequire(import.meta.url).resolve("altcha");
  return readFileSync(join(dirname(main), "../..", file), "utf8");
}

test("a slider puzzle is solved, and a wrong position brings a new puzzle", async ({ page }) => {
  await openSale(page, { human_check: "captcha" });
  const field = page.locator("#puzzle-answer");
  await field.waitFor();
  // The piece was hardly moved: the page sends nothing and keeps the puzzle.
  await page.getByTestId("puzzle-send").click();
  await expect(page.getByTestId("puzzle")).toBeVisible();
  const refused = page.waitForResponse(/\/ticket$/);
  await dragPieceTo(page, 2);
  await page.getByTestId("puzzle-send").click();
  expect((await refused).status()).toBe(403);
  await expect(page.getByTestId("puzzle")).toBeVisible();
  await dragPieceTo(page, await findGap(page));
  const issued = page.waitForResponse(/\/ticket$/);
  await page.getByTestId("puzzle-send").click();
  expect((await issued).status()).toBe(201);
  await buyNow(page);
});

test("the thumb of the slider is as large as a finger", async ({ page }) => {
  await openSale(page, { human_check: "captcha" });
  const field = page.locator("#puzzle-answer");
  const { x, y, height } = await field.boundingBox();
  // Beside the track a press would let the thumb jump.
  await page.mouse.move(x + 38, y + height / 2);
  await page.mouse.down();
  await expect(field).toHaveValue("0");
  await page.mouse.move(x + 150, y + height / 2, { steps: 5 });
  await page.mouse.up();
  expect(Number(await field.inputValue())).toBeGreaterThan(50);
});

test("a wrong answer says so and brings another puzzle, however many there were", async ({ page }) => {
  // Five refusals that the app does not count.
  let refusals = 0;
  await page.route(/\/ticket$/, (route) => {
    refusals += 1;
    if (refusals > 5) return route.continue();
    return route.fulfill({ status: 403, json: { status: 403, code: "human_check_failed" } });
  });
  await openSale(page, { human_check: "captcha" });
  for (let answers = 0; answers < 5; answers += 1) {
    await expect(page.getByTestId("puzzle")).toBeVisible();
    if (answers) await expect(page.getByTestId("check-status")).toContainText("That was not right.");
    await dragPieceTo(page, 2);
    const refused = page.waitForResponse(/\/ticket$/);
    await page.getByTestId("puzzle-send").click();
    await refused;
  }
  await expect(page.getByTestId("puzzle")).toBeVisible();
  await dragPieceTo(page, await findGap(page));
  await page.getByTestId("puzzle-send").click();
  await untilCanBuy(page);
  await expect(page.getByTestId("check-status")).toHaveText("");
});

test("a visitor switches to the sum puzzle with the keyboard alone", async ({ page }) => {
  await openSale(page, { human_check: "captcha" });
  await expect(page.getByTestId("puzzle")).toBeVisible();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator('#puzzle-answer[inputmode="numeric"]').waitFor();
  const refused = page.waitForResponse(/\/ticket$/);
  await page.keyboard.type("-77");
  await page.keyboard.press("Enter");
  const answer = await refused;
  expect(answer.status()).toBe(403);
  expect((await answer.json()).code).toBe("human_check_failed");
  expect(answer.request().postDataJSON().captcha.answer).toBe(-77);
});

/** Moves the piece with the arrow keys, step by step, at human speed for the first steps. */
async function dragPieceTo(page, to) {
  await page.locator("#puzzle-answer").focus();
  await page.keyboard.press("Home");
  for (let at = 0; at < Math.max(to, 12); at += 1) await page.keyboard.press("ArrowRight", { delay: at < 12 ? 30 : 0 });
  for (let at = Math.max(to, 12); at > to; at -= 1) await page.keyboard.press("ArrowLeft");
}

/** Finds the position of the gap by comparing the piece, all of it, with the darkened image at every position. */
const findGap = (page) =>
  page.evaluate(async () => {
    const load = async (image) => {
      await image.decode();
      const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      return context.getImageData(0, 0, canvas.width, canvas.height);
    };
    const picture = await load(document.querySelector(".puzzle-picture"));
    const piece = await load(document.querySelector(".puzzle-piece"));
    const top = Math.round((parseFloat(document.querySelector(".puzzle-piece").style.top) / 100) * picture.height);
    const at = (data, x, y) => (y * data.width + x) * 4;
    let best = { difference: Infinity };
    for (let x = 0; x <= picture.width - piece.width; x += 1) {
      let difference = 0;
      for (let y = 0; y < piece.height; y += 1) {
        for (let px = 0; px < piece.width; px += 1) {
          const [p, q] = [at(piece, px, y), at(picture, x + px, top + y)];
          if (piece.data[p + 3] < 255) continue;
          // The gap shows the same image, blended with a dark colour.
          for (let c = 0; c < 3; c += 1) {
            const glass = [8, 10, 24][c] * 0.647 + piece.data[p + c] * 0.353;
            difference += Math.abs(picture.data[q + c] - glass);
          }
        }
      }
      if (difference < best.difference) best = { difference, x };
    }
    return best.x;
  });
