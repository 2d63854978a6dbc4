// The shop's links at the foot of the pages (`legal_links`).

import { expect, test } from "../support/test.js";

test.use({ variables: { legal_links: "terms=https://shop.example/terms imprint=/imprint" } });

test("the pages lead to the shop's terms and imprint, in the language of the visitor", async ({ newPage }) => {
  for (const [locale, texts] of [["en-GB", ["Terms", "Imprint"]], ["zh-CN", ["条款", "经营者信息"]]]) {
    const page = await newPage("/", { locale });
    const links = page.getByTestId("links").getByRole("link");
    await expect(links).toHaveText(texts);
    expect(await links.evaluateAll((nodes) => nodes.map((node) => node.getAttribute("href")))).toEqual([
      "https://shop.example/terms", "/imprint",
    ]);
  }
});
