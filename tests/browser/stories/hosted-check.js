// A hosted human check on a sale page (B5), with a stand-in for the provider.

import { createServer } from "node:http";
import { variable } from "../../support/app.mjs";
import { openSale, untilCanBuy } from "../support/page.js";
import { expect, test } from "../support/test.js";

test.use({
  variables: {
    siteverify_url: "http://127.0.0.1:{port:checks}/siteverify",
    siteverify_host: "http://127.0.0.1:{port:checks}",
    siteverify_secret: "the provider's",
    siteverify_site_key: "the site's",
    siteverify_script: "http://127.0.0.1:{port:checks}/api.js",
    siteverify_hostnames: "127.0.0.1",
  },
});

// The provider's script, as the page loads it: a frame of its own origin asks the visitor, and its answer is a token.
const SCRIPT = `(() => {
  const { origin } = new URL(document.currentScript.src);
  const render = (box, { sitekey, action, callback }) => {
    const frame = document.createElement("iframe");
    frame.src = origin + "/frame";
    addEventListener("message", (event) => {
      if (event.origin === origin) callback([sitekey, action, event.data].join("/"));
    });
    box.append(frame);
  };
  setTimeout(() => (window.turnstile = { render }), 200);
})();`;

const FRAME = `<!doctype html><button onclick="parent.postMessage('human', '*')">I am human</button>`;

/** Starts the provider. Resolves to the forms that it receives, and a function that stops it. */
async function startProvider() {
  const forms = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.url === "/api.js") return response.setHeader("content-type", "text/javascript").end(SCRIPT);
    if (request.url === "/frame") return response.setHeader("content-type", "text/html").end(FRAME);
    forms.push(new URLSearchParams(Buffer.concat(chunks).toString()));
    response.end(JSON.stringify({ success: true, hostname: "127.0.0.1", action: "ticket" }));
  });
  await new Promise((resolve) => server.listen(Number(variable("PORT_CHECKS")), "127.0.0.1", resolve));
  return { forms, stop: () => server.closeAllConnections() ?? new Promise((resolve) => server.close(resolve)) };
}

test("a visitor solves a provider's check, and the ticket buys", async ({ page }) => {
  const provider = await startProvider();
  try {
    await openSale(page, { human_check: "hosted" });
    await page.getByTestId("hosted-check").frameLocator("iframe").getByText("I am human").click();
    await untilCanBuy(page);
    await expect(page.getByTestId("hosted-check")).toBeHidden();
    await page.getByTestId("buy").click();
    await page.waitForURL(/\/order\?/);
    const [form] = provider.forms;
    expect([form.get("secret"), form.get("response")]).toEqual(["the provider's", "the site's/ticket/human"]);
  } finally {
    await provider.stop();
  }
});
