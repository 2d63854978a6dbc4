// Pictures of the operators' and the sandbox's pages, to look at: in `browser-screens` of Cargo's target directory.

import { resolve } from "node:path";
import { copyAsDraft, orderOf, publish, targetDirectory } from "../support/app.js";
import { deskOf, editorOf, goToPayment, signInAsOperator, untilCanBuy, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

/** Makes the function that pictures the whole page under a name. */
const pictures = (page, project, colorScheme) => (name) => page.screenshot({
  path: resolve(targetDirectory, "browser-screens", `${name}, ${project.name}, ${colorScheme}.png`), fullPage: true, animations: "disabled",
});

for (const colorScheme of ["light", "dark"]) {
  test(`the pages that pictures.js has not are pictured in ${colorScheme} colours`, { tag: "@phone" }, async ({ newPage }, { project }) => {
    const page = await newPage(null, { colorScheme });
    const picture = pictures(page, project, colorScheme);
    const item = (sku, name, price) => ({ sku, name, price, currency: "EUR", total: 3, image: `/demo/${sku}.svg` });
    const skus = [{ ...item("camera", "Instant camera", 12_900), sku: "item" }, item("film", "Film, two packs", 2_499)];
    const { id } = await publish({ title: "Spring sale", description: "A few hundred cameras, and film for them.", skus, perUser: 2 });
    await page.goto(`/sale?activity=${id}`);
    await untilCanBuy(page);
    await page.getByTestId("buy").click();
    await page.getByTestId("sign-in-user").waitFor();
    await picture("sign-in of the sandbox");
    const { buyer, order } = await orderOf(id);
    await page.evaluate((token) => localStorage.setItem("stampede.token", token), buyer.token);
    await page.goto(`/order?order_no=${order}`);
    await goToPayment(page);
    await page.getByTestId("sandbox-pay").waitFor();
    await picture("payment page of the sandbox");
    const checked = await publish({ title: "Spring sale", human_check: "pow" });
    // The widget shows its result for a moment only.
    await page.route("**/ticket", (route) => setTimeout(() => route.continue().catch(() => {}), 3_000));
    await page.goto(`/sale?activity=${checked.id}`);
    await page.getByTestId("altcha").waitFor();
    await picture("sale, proof of work");
    await page.goto("/no-such-page");
    await picture("not found");
    await page.goto("/admin");
    await picture("operator, token");
    await signInAsOperator(page);
    for (const [name, path, part] of [
      ["sales", "/admin", `row-${id}`], ["sale", deskOf(id), "stock-item"], ["draft", deskOf(await copyAsDraft(id)), "checks"],
      ["editor", editorOf(id), "f-save"], ["orders", `/admin/orders?activity=${id}`, "order-row"], ["order", `/admin/order?no=${order}`, "timeline"],
      ["inbox", "/admin/inbox", "inbox-title"], ["buyers", "/admin/buyers", "ban-form"], ["changes", "/admin/changes", "change"],
    ]) {
      await page.goto(path);
      await page.getByTestId(part).first().waitFor();
      await picture(`operator, ${name}`);
    }
    await page.goto(`/admin/preview?activity=${await copyAsDraft(id)}`);
    await untilText(page, "title", "Spring sale");
    await picture("operator, preview of a draft");
  });
}
