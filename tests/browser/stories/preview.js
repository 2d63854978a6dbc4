// The preview of a draft from the operators' page (G2).

import { readFileSync } from "node:fs";
import { call, callAdmin, changeSale, eventually, publish, send, unique, untilPhase } from "../support/app.js";
import { deskOf, signInAsOperator, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

/** Creates a draft that starts in an hour, with texts in two languages. Resolves to its id. */
async function createDraft(changes) {
  const id = unique("draft");
  const startsAt = Date.now() + 3_600_000;
  await callAdmin("PUT", `/activities/${id}`, {
    title: "Cameras", titles: { zh: "相机特卖" }, description: "Only five.", descriptions: { zh: "只有五台。" },
    image: "/demo/camera.svg", per_user: 2,
    starts_at: new Date(startsAt).toISOString(), ends_at: new Date(startsAt + 600_000).toISOString(), pay_timeout_seconds: 300,
    skus: [{ sku: "camera", name: "Camera", names: { zh: "相机" }, image: "/demo/film.svg", price: 12_900, currency: "EUR", total: 5 }],
    ...changes,
  });
  return id;
}

/** Opens a preview by its link on the page of the sale. Resolves to its tab. */
async function openPreviewOn(desk, id) {
  await desk.goto(deskOf(id));
  const opened = desk.waitForEvent("popup");
  await desk.getByTestId("preview").click();
  const page = await opened;
  await expect(page.getByTestId("title")).not.toBeEmpty();
  return page;
}

/** The same, on an operators' page of its own. */
async function openPreview(newPage, id) {
  const desk = await newPage("/admin");
  await signInAsOperator(desk);
  return openPreviewOn(desk, id);
}

/** What the page says about the sale: all texts but the times that pass, and the pictures. */
const contents = (page) =>
  page.locator("#sale").evaluate((sale) => {
    const passing = sale.querySelectorAll("#clock");
    const pictures = [...sale.querySelectorAll("img")].map(({ src, naturalWidth }) => [src, naturalWidth > 0]);
    for (const node of passing) node.style.display = "none";
    const text = sale.innerText;
    for (const node of passing) node.style.display = "";
    return { text, pictures };
  });

test("an operator sees a draft as its buyers will, in both languages", async ({ newPage }) => {
  const id = await createDraft();
  const page = await openPreview(newPage, id);
  const seen = [];
  for (const [title, name, description, banner, rule] of [
    ["Cameras", "Camera", "Only five.", "Preview: not published", "Up to 2 per person"],
    ["相机特卖", "相机", "只有五台。", "预览：未发布", "限购 2 件"],
  ]) {
    await expect(page.getByTestId("title")).toHaveText(title);
    await expect(page.locator("#preview-title")).toHaveText(banner);
    await expect(page.getByTestId("clock")).toHaveText(/^(59:\d\d|01:00:00)$/);
    await expect(page.locator("img.picture").first()).toBeVisible();
    const { text, pictures } = await contents(page);
    for (const part of [name, description, rule, "129.00"]) expect(text).toContain(part);
    expect(pictures.map(([src, isLoaded]) => [new URL(src).pathname.split(".")[0], isLoaded])).toEqual([
      ["/demo/film", true], ["/demo/camera", true],
    ]);
    seen.push({ text, pictures });
    await page.getByTestId("language").click();
  }

  await callAdmin("POST", `/activities/${id}/publish`, {});
  await untilPhase(id, { phases: ["scheduled"] });
  await expect(page.locator("#preview-title")).toHaveText("Preview: this drop is published");
  for (const [index, locale] of ["en-GB", "zh-CN"].entries()) {
    const visitor = await newPage(`/sale?activity=${id}`, { locale });
    await expect(visitor.getByTestId("clock")).toHaveText(/\d:\d\d/);
    await visitor.waitForLoadState("networkidle");
    expect(await contents(visitor), locale).toEqual(seen[index]);
  }
});

test("a preview follows what is saved, shows other moments, and sells nothing", async ({ newPage }) => {
  const id = await createDraft();
  const page = await openPreview(newPage, id);
  const sent = new Set();
  page.on("request", (request) => sent.add(`${request.method()} ${new URL(request.url()).pathname}`));
  await page.reload();
  await expect(page.getByTestId("title")).toHaveText("Cameras");
  const buy = page.getByTestId("buy");
  for (const [moment, label] of [
    ["scheduled", "Sign in to take part"], ["open", "Sign in to buy"], ["sold_out", "All drops"], ["ended", "All drops"],
  ]) {
    await page.getByTestId("moment").selectOption(moment);
    await expect(buy).toHaveText(label);
    await expect(buy).toBeEnabled();
  }
  await page.getByTestId("moment").selectOption("open");
  await page.getByTestId("buy").click();
  await untilText(page, "notice", "This is a preview: nothing is sold here.");
  await expect(page.locator("dialog")).toHaveCount(0);

  await changeSale(id, { title: "Better cameras" });
  await expect(page.getByTestId("title")).toHaveText("Better cameras");
  await expect(buy).toHaveText("Sign in to buy");
  // What the operators' host name serves (stampede-operator-host.conf), and no other route of the app.
  const [calls, files] = [[], []];
  for (const request of sent) (request.includes("/api/") ? calls : files).push(request);
  expect(calls).toEqual([`GET /api/admin/activities/${id}`]);
  for (const file of files) expect(file).toMatch(/^GET \/(admin\/preview$|assets\/|demo\/[a-z]+\.svg$)/);
  expect((await callAdmin("GET", `/activities/${id}`)).state).toBe("draft");
});

test("a visitor finds no draft, with or without its preview", async ({ newPage }) => {
  const id = await createDraft();
  const { id: published } = await publish();
  for (const path of [`/api/activities/${id}`, `/api/activities/${id}/gate.json`, `/api/admin/activities/${id}`]) {
    expect((await send("GET", path)).status, path).toBe(path.includes("admin") ? 401 : 404);
  }
  const listed = await eventually("a list with a later sale", async () => {
    const ids = (await call("GET", "/api/activities")).items.map((activity) => activity.id);
    return { done: ids.includes(published), value: ids };
  });
  expect(listed).not.toContain(id);

  const visitor = await newPage(`/sale?activity=${id}`);
  await expect(visitor.locator("#missing")).toBeVisible();
  await visitor.goto(`/admin/preview?activity=${id}`);
  await expect(visitor.getByTestId("closed")).toContainText("Only operators can see a draft.");
  await visitor.evaluate(() => sessionStorage.setItem("stampede.admin", "not-the-token"));
  await visitor.reload();
  await expect(visitor.getByTestId("closed")).toBeVisible();
  for (const part of ["#sale", "#preview-bar"]) await expect(visitor.locator(part)).toBeHidden();
  expect(await visitor.content()).not.toContain("Cameras");
});

test("an operator who leaves has left the previews, too, also one that was closed meanwhile", async ({ newPage }) => {
  const id = await createDraft();
  const desk = await newPage("/admin");
  await signInAsOperator(desk);
  const preview = await openPreviewOn(desk, id);
  const token = () => sessionStorage.getItem("stampede.admin");
  const closed = await openPreviewOn(desk, id);
  const kept = await closed.evaluate(() => ({ ...sessionStorage }));
  expect(kept["stampede.admin"]).toBe(await preview.evaluate(token));
  await closed.goto("about:blank");
  await desk.getByTestId("leave").click();
  await expect(desk.getByTestId("enter")).toBeVisible();
  await expect.poll(() => preview.evaluate(token).catch(() => undefined)).toBe(null);
  await expect(preview.locator("#closed")).toBeVisible();
  // A browser restores the storage of a tab with the tab.
  await closed.goto("/healthz");
  await closed.evaluate((values) => Object.assign(sessionStorage, values), kept);
  await closed.goto("/admin");
  await expect(closed.getByTestId("enter")).toBeVisible();
  expect(await closed.evaluate(token)).toBe(null);
  await signInAsOperator(desk);
  await expect(desk.getByTestId("leave")).toBeVisible();
});

test("an operator enters and leaves whatever became of the device's storage", async ({ newPage }) => {
  await createDraft();
  const desk = await newPage("/admin");
  const token = () => desk.evaluate(() => sessionStorage.getItem("stampede.admin"));
  await signInAsOperator(desk);
  await desk.getByTestId("leave").click();
  await signInAsOperator(desk);
  await desk.evaluate(() => localStorage.clear());
  await desk.reload();
  await signInAsOperator(desk);
  await expect(desk.getByTestId("leave")).toBeVisible();
  await desk.evaluate(() => {
    for (let size = 1 << 23; size >= 1; size >>= 1) {
      try {
        for (let part = 0; part < 9; part += 1) localStorage.setItem(`full.${size}.${part}`, "x".repeat(size));
      } catch {}
    }
  });
  await desk.getByTestId("leave").click();
  await expect(desk.getByTestId("enter")).toBeVisible();
  expect(await token()).toBe(null);
});

test("a desk that another operator left, or that was closed an hour ago, is not shown again", async ({ newPage }) => {
  await createDraft();
  const desk = await newPage("/admin");
  await signInAsOperator(desk);
  await desk.evaluate(() => (globalThis.isFirst = true));
  await desk.goto("/");
  await desk.goto("/admin");
  await expect(desk.getByTestId("leave")).toBeVisible();
  await desk.getByTestId("leave").click();
  await signInAsOperator(desk);
  await desk.goBack({ waitUntil: "commit" });
  await desk.goBack({ waitUntil: "commit" });
  await desk.waitForURL("/admin", { waitUntil: "commit" });
  await expect.poll(() => desk.evaluate(() => globalThis.isFirst).catch(() => "loading")).toBeUndefined();
  await expect(desk.getByTestId("leave")).toBeVisible();
  const kept = await desk.evaluate(() => ({ ...sessionStorage }));
  await desk.goto("/healthz");
  await desk.evaluate((values) => {
    for (const [key, value] of Object.entries(values)) {
      // Times of an hour ago.
      sessionStorage.setItem(key, /^\d+$/.test(value) && !key.endsWith("_left") ? String(Number(value) - 3_600_000) : value);
    }
  }, kept);
  await desk.goto("/admin");
  await expect(desk.getByTestId("enter")).toBeVisible();
  expect(await desk.evaluate(() => sessionStorage.getItem("stampede.admin"))).toBe(null);
});

test("the preview has the article of the sale page", () => {
  const [sale, preview] = ["sale", "admin/preview"].map((name) => {
    const page = readFileSync(new URL(`../../../static/${name}.html`, import.meta.url), "utf8");
    return page.slice(page.indexOf("<article"), page.indexOf("</article>"));
  });
  expect(sale.length).toBeGreaterThan(1_000);
  expect(preview).toBe(sale);
});
