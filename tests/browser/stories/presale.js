// A sale that asks for presale codes: who has none is told so, and a code gives a ticket (B7).

import { readFile } from "node:fs/promises";
import { callAdmin, publish } from "../support/app.js";
import { buyNow, deskOf, holdAnswers, openDesk, openSale, signInOnPage, untilCanBuy, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

const PRESALE = { eligibility: { codes: true } };

test("a wrong code is said so, the right one lets its user buy, and a reload needs it no more", async ({ newPage }) => {
  const page = await newPage("/robots.txt");
  const { id } = await openSale(page, PRESALE);
  await callAdmin("PUT", `/activities/${id}/codes`, "FRIENDS2026");
  await untilText(page, "who", "presale code");
  await untilText(page, "buy", "Enter your code");
  await page.getByTestId("buy").click();
  await expect(page.getByTestId("code")).toBeFocused();
  await page.keyboard.type("WRONGCODE");
  await page.keyboard.press("Enter");
  await untilText(page, "code-note", "wrong");
  await page.getByTestId("code").fill(" friends-2026 ");
  await page.getByTestId("code-use").click();
  await untilText(page, "code-note", "accepted");
  await untilCanBuy(page);
  await page.reload();
  await untilCanBuy(page);
  await buyNow(page);

  const other = await newPage(`/sale?activity=${id}`);
  await signInOnPage(other, "another");
  await other.getByTestId("code").fill("FRIENDS2026");
  await other.getByTestId("code-use").click();
  await untilText(other, "code-note", "wrong, or others have used it");
});

test("a code that is given while another one is looked at is looked at, too", async ({ page }) => {
  const { id } = await openSale(page, PRESALE);
  await callAdmin("PUT", `/activities/${id}/codes`, "FRIENDS2026");
  await untilText(page, "buy", "Enter your code");
  const release = await holdAnswers(page, `**/api/activities/${id}/ticket`);
  await page.getByTestId("code").fill("WRONGCODE");
  await page.getByTestId("code-use").click();
  await page.getByTestId("code").fill("FRIENDS2026");
  await page.getByTestId("code-use").click();
  await release();
  await untilText(page, "code-note", "accepted");
});

test("an operator makes codes, uploads a file and saves all of them", async ({ page }) => {
  const { id } = await publish(PRESALE);
  await openDesk(page, deskOf(id));
  await page.getByTestId("codes-make").click();
  await page.getByTestId("ask-count").fill("3");
  await page.getByTestId("dialog-yes").click();
  await untilText(page, "notice", "3 codes are new");
  const upload = (text) => page.getByTestId("codes-file").setInputFiles({ name: "codes.csv", mimeType: "text/csv", buffer: Buffer.from(text) });
  await upload("code,max_users\nPRESS1,2\n\nsome-code!");
  await untilText(page, "notice", "Line 3 is no code, and nothing was sent: some-code!");
  const lines = Array.from({ length: 700 }, (_, index) => `PRESS${index},2`);
  await upload(lines.join("\r\n"));
  await untilText(page, "notice", "700 codes are new: the sale has 703");
  const download = page.waitForEvent("download");
  await page.getByTestId("codes-save").click();
  const saved = await readFile(await (await download).path(), "utf8");
  expect(saved.trim().split("\r\n")).toHaveLength(704);
  expect(saved).toContain("PRESS699,2,0");
  await expect(page.getByTestId("changes")).toContainText("added 3 presale codes");
});
