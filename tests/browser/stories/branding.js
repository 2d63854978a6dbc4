// The shop's own name, logo, colour and texts (G15).

import { publish, url } from "../support/app.js";
import { accessibilityViolations } from "../support/axe.js";
import { expect, test } from "../support/test.js";

// Yellow is unreadable on white, and white on it.
test.use({
  variables: {
    shop_name: "Kamera & <b>Söhne</b>",
    shop_logo: "/demo/camera.svg",
    shop_color: "#ffee00",
    shop_texts: JSON.stringify({ en: { "list.title": "Drops & more" } }),
  },
});

test("a page shows the shop's name, logo and colour before any script runs", async ({ newPage }) => {
  const page = await newPage("/sale?activity=x", { javaScriptEnabled: false, colorScheme: "dark" });
  await expect(page).toHaveTitle("Flash sale · Kamera & <b>Söhne</b>");
  await expect(page.locator(".brand-name")).toHaveText("Kamera & <b>Söhne</b>");
  await expect(page.locator(".brand img")).toHaveAttribute("src", "/demo/camera.svg");
  await expect(page.locator("link[rel=icon]")).toHaveAttribute("href", "/demo/camera.svg");
  const html = await (await fetch(`${url()}/sale`)).text();
  expect(html).toMatch(/<style>:root\{--accent:#\w{6};/);
});

for (const colorScheme of ["light", "dark"]) {
  test(`text is readable in any colour of the shop, in ${colorScheme} mode`, async ({ newPage }) => {
    const { id } = await publish();
    const page = await newPage(`/sale?activity=${id}`, { colorScheme });
    await expect(page.getByTestId("buy")).toBeEnabled();
    const accent = await page.getByTestId("buy").evaluate((button) => getComputedStyle(button).backgroundColor);
    if (colorScheme === "dark") expect(accent).toBe("rgb(255, 238, 0)");
    else expect(["rgb(255, 238, 0)", "rgb(199, 54, 31)"]).not.toContain(accent);
    expect(await accessibilityViolations(page)).toEqual([]);
    await expect(page).toHaveTitle(`The sale ${id} · Kamera & <b>Söhne</b>`);
  });
}

test("texts of the shop replace those of the same language", async ({ newPage }) => {
  for (const [locale, title] of [["en-GB", "Drops & more"], ["zh-CN", "限时发售"]]) {
    const page = await newPage("/", { locale });
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(title);
  }
});
