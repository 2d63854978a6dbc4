// The way back from Stripe's payment page (E1).

import { createHmac } from "node:crypto";
import { StripeServer } from "../../interop/support/stripe-server.js";
import { variable } from "../../support/app.mjs";
import { publish, send, signIn, unique } from "../support/app.js";
import { fillInAddress, untilText } from "../support/page.js";
import { expect, test } from "../support/test.js";

test.use({
  variables: {
    sandbox: "off",
    payment_provider: "stripe",
    stripe_api: "http://127.0.0.1:{port:stripe}",
    stripe_api_key: "sk_test_stampede",
    shop_url: "https://shop.example",
  },
});

test("a buyer who comes back from Stripe lands on the order, which confirms the payment", async ({ page, baseURL }) => {
  const stripe = await new StripeServer().start();
  try {
    await page.route("https://checkout.stripe.example/**", (route) => route.fulfill({ body: "Stripe's page" }));
    await page.route("https://shop.example/**", (route) => {
      const { pathname, search } = new URL(route.request().url());
      return route.fulfill({ status: 302, headers: { location: `${baseURL}${pathname}${search}` } });
    });
    const { id } = await publish();
    const { token } = await signIn();
    await page.addInitScript((token) => localStorage.setItem("stampede.token", token), token);
    await page.goto(`/sale?activity=${id}`);
    await expect(page.getByTestId("buy")).toBeEnabled();
    await page.getByTestId("buy").click();
    await fillInAddress(page);
    await page.getByTestId("pay").click();
    await page.waitForURL(/checkout\.stripe\.example/);
    const [[, successUrl], [, cancelUrl]] = ["success_url", "cancel_url"].map((name) =>
      stripe.requests.at(-1).form.find(([field]) => field === name));
    const [session] = stripe.sessions.values();
    expect(stripe.requests.at(-1).form.find(([field]) => field === "locale")[1]).toBe("en");

    await page.goto(cancelUrl);
    await untilText(page, "headline", "It’s yours");
    await expect(page.getByTestId("to-payment")).toBeVisible();

    await page.goto(successUrl);
    await untilText(page, "headline", "Confirming your payment");
    await expect(page.getByTestId("to-payment")).toBeHidden();
    await expect(page.getByTestId("cancel")).toBeHidden();

    stripe.pay(session);
    await sendCallback("checkout.session.completed", session);
    await untilText(page, "headline", "Paid");
  } finally {
    await stripe.stop();
  }
});

/** Sends an event as Stripe does, signed. */
async function sendCallback(type, object) {
  const payload = JSON.stringify({ id: unique("evt"), object: "event", type, data: { object } });
  const time = Math.floor(Date.now() / 1_000);
  const signature = createHmac("sha256", variable("STRIPE_SECRET")).update(`${time}.${payload}`).digest("hex");
  const headers = { "stripe-signature": `t=${time},v1=${signature}` };
  expect((await send("POST", "/api/payments/stripe", { body: payload, headers })).status).toBe(204);
}
