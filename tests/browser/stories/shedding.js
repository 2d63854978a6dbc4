// Load shedding (B9), which concerns all activities of an app.

import { callAdmin, publish } from "../support/app.js";
import { clickAndConfirm, openSale, signInAsOperator, untilCanBuy, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

test.use({ variables: {} });

test("a click while load is shed waits, and succeeds afterwards without another click", async ({ page, newPage }) => {
  await openSale(page);
  await untilCanBuy(page);
  await expect(page.getByTestId("ticket-step")).toHaveText("Entry pass ready");
  await callAdmin("PUT", "/shed", { on: true });
  try {
    const adminPage = await newPage("/admin");
    await signInAsOperator(adminPage);
    await expect(adminPage.getByTestId("shedding")).toBeVisible();
    await page.reload();
    await untilCanBuy(page);
    await page.getByTestId("buy").click();
    await untilText(page, "note", "It is very busy right now.");
  } finally {
    await callAdmin("PUT", "/shed", { on: false });
  }
  await page.waitForURL(/\/order\?/);
});

test("an operator sees that another operator sheds load, and when it is over", async ({ newPage }) => {
  await publish();
  const [page, other] = [await newPage("/admin"), await newPage("/admin")];
  for (const console of [page, other]) await signInAsOperator(console);
  await expect(page.getByTestId("shedding")).toBeHidden();
  try {
    await clickAndConfirm(other, "shed");
    for (const console of [page, other]) await untilText(console, "shedding", "Load is shed");
    await page.getByTestId("shed-off").click();
  } finally {
    await callAdmin("PUT", "/shed", { on: false });
  }
  for (const console of [page, other]) await expect(console.getByTestId("shedding")).toBeHidden();
  await expect(other.getByTestId("shed")).toBeVisible();
});
