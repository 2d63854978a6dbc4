// Pictures of the pages and their states, to look at: in `browser-screens` of Cargo's target directory.

import { resolve } from "node:path";
import {
  callAdmin, copyAsDraft, publish, reserve, signIn, sweep, targetDirectory, unique, untilOrder,
} from "../support/app.js";
import { clickAndConfirm, goToPayment, signInAsOperator, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

/** Makes the function that pictures the whole page under a name. */
const pictures = (page, project, colorScheme) => (name) => page.screenshot({
  path: resolve(targetDirectory, "browser-screens", `${name}, ${project.name}, ${colorScheme}.png`), fullPage: true, animations: "disabled",
});

for (const colorScheme of ["light", "dark"]) {
  test(`every page is pictured in ${colorScheme} colours`, { tag: "@phone" }, async ({ newPage, words }, { project }) => {
    const page = await newPage(null, { colorScheme });
    const picture = pictures(page, project, colorScheme);
    const item = (sku, name, price) => ({ sku, name, price, currency: "EUR", total: 3, image: `/demo/${sku}.svg` });
    const skus = [{ ...item("camera", "Instant camera", 12_900), sku: "item" }, item("film", "Film, two packs", 2_499)];
    const spec = { title: "Spring sale", description: "A few hundred cameras, and film for them.", skus, perUser: 2 };
    const [scheduled, open] = [await publish({ ...spec, startsIn: 600_000 }), await publish({ ...spec, payTimeout: 600 })];
    const buyer = await signIn(unique("mia"));
    await page.goto("/");
    await page.getByTestId("sale-link").first().waitFor();
    await picture("list");
    await page.goto(`/sale?activity=${scheduled.id}`);
    await untilText(page, "title", "Spring sale");
    await picture("sale before the start, signed out");
    await page.evaluate((token) => localStorage.setItem("stampede.token", token), buyer.token);
    await page.goto(`/sale?activity=${open.id}`);
    await page.getByTestId("buy").first().and(page.locator(":enabled")).waitFor();
    await picture("sale, open");
    const order = (await reserve(open.id, buyer)).order_no;
    await untilOrder(order, "pending_payment", buyer);
    await page.goto(`/order?order_no=${order}`);
    await untilText(page, "headline", words["order.pending_payment"]);
    await picture("order, to be paid");
    await page.goto("/orders");
    await page.getByTestId("order-link").first().waitFor();
    await picture("orders");
    await page.goto(`/order?order_no=${order}`);
    await page.getByTestId("cancel").click();
    await page.getByTestId("dialog-yes").waitFor();
    await picture("order, to be cancelled");
    await page.getByTestId("dialog-yes").click();
    await untilText(page, "headline", words["order.cancelled"]);
    await picture("order, cancelled");
    await page.goto("/no-such-page");
    await picture("not found");
    await page.goto("/admin");
    await picture("operator, token");
    await signInAsOperator(page);
    await page.getByTestId(`live-${open.id}`).click();
    await page.getByTestId("stock-item").waitFor();
    const row = page.locator("tr", { has: page.getByTestId(`live-${open.id}`) });
    await expect(row, "the operator's page is English only").not.toContainText(/\p{Script=Han}/u);
    await picture("operator");
    await page.getByTestId(`edit-${open.id}`).click();
    await page.getByTestId("f-save").waitFor();
    await picture("operator, editor");
    await page.goto(`/admin/preview?activity=${await copyAsDraft(scheduled.id)}`);
    await untilText(page, "title", "Spring sale");
    await picture("operator, preview of a draft");
  });
  test(`the states of a sale and of an order are pictured in ${colorScheme} colours`, { tag: "@phone" }, async ({ newPage, words }, { project }) => {
    const page = await newPage(null, { colorScheme });
    const picture = pictures(page, project, colorScheme);
    const buyer = await signIn(unique("mia"));
    const { id } = await publish({ title: "Spring sale", payTimeout: 600 });
    await page.goto(`/sale?activity=${id}`);
    await page.getByTestId("buy").and(page.locator(":enabled")).click();
    await page.getByTestId("sign-in-user").waitFor();
    await picture("sign-in of the sandbox");
    await page.evaluate((token) => localStorage.setItem("stampede.token", token), buyer.token);

    const order = (await reserve(id, buyer)).order_no;
    await untilOrder(order, "pending_payment", buyer);
    await page.goto(`/order?order_no=${order}`);
    await goToPayment(page);
    await page.getByTestId("sandbox-pay").waitFor();
    await picture("payment page of the sandbox");
    await page.getByTestId("sandbox-decline").click();
    await untilText(page, "headline", words["order.declined"]);
    await picture("order, declined");
    await page.getByTestId("to-payment").click();
    await page.getByTestId("sandbox-pay").click();
    await page.waitForURL(/\/order\?/);
    await untilText(page, "headline", words["order.paid"]);
    await picture("order, paid");
    for (const status of ["queued", "failed", "expired"]) {
      const reason = { failed: "no_room_in_ledger", expired: "not_paid_in_time" }[status] ?? null;
      const shown = { order_no: order, status, reason, ahead: 120, estimated_wait_ms: 3_000, checkout_url: null, paid_at: null };
      await page.route(`**/api/orders/${order}`, async (route) => {
        const response = await route.fetch({ headers: { ...route.request().headers(), "if-none-match": "" } });
        return route.fulfill({ json: { ...(await response.json()), ...shown } });
      });
      await page.reload();
      await untilText(page, "headline", words[`order.${status}`]);
      await picture(`order, ${status}`);
      await page.unroute(`**/api/orders/${order}`);
    }
    await page.reload();
    await clickAndConfirm(page, "refund");
    await untilText(page, "headline", words["order.refunding"]);
    await picture("order, refunding");
    await sweep();
    await untilText(page, "headline", words["order.refunded"]);
    await picture("order, refunded");

    const soldOut = await publish({ title: "Spring sale", total: 1 });
    await reserve(soldOut.id, await signIn(unique("ben")));
    await page.goto(`/sale?activity=${soldOut.id}`);
    await untilText(page, "buy", words["sale.sold_out"]);
    await picture("sale, sold out");
    const paused = await publish({ title: "Spring sale" });
    await callAdmin("POST", `/activities/${paused.id}/pause`);
    await page.goto(`/sale?activity=${paused.id}`);
    await untilText(page, "buy", words["sale.paused"]);
    await picture("sale, paused");
    for (const [check, testid] of [["captcha", "puzzle"], ["pow", "altcha"]]) {
      const checked = await publish({ title: "Spring sale", human_check: check });
      // The widget shows its result for a moment only.
      await page.route("**/ticket", (route) => setTimeout(() => route.continue().catch(() => {}), 3_000));
      await page.goto(`/sale?activity=${checked.id}`);
      await page.getByTestId(testid).waitFor();
      await picture(`sale, human check ${check}`);
      await page.unroute("**/ticket");
    }
    await page.goto("/sale?activity=no-such-sale");
    await page.locator("#missing").waitFor();
    await picture("sale, unknown");
  });
}
