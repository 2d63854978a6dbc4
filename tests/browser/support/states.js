// The states of the buyers' pages, from answers that no server gave: to be pictured, and checked for boxes that move.

import { element } from "./states/element.js";
import { list } from "./states/list.js";
import { orderPage, orders } from "./states/order.js";
import { sale } from "./states/sale.js";

/**
 * The states by the kind of page. A state has a `name`, a `path`, and `answers(now)`: documents, or `[status, document]`, by
 * `"METHOD /path"`; an answer of `null` never comes. Optional: `user`, who is signed in; `act(page)`; `until`, a selector
 * that is visible then; and `isFull`, to picture more than the first screen.
 */
export const STATES = { list, sale, order: orderPage, orders, element };

/** Lets the page get `answers` in place of the API's, until it is called again. */
export async function answerWith(page, answers) {
  await page.unroute("**/api/**");
  await page.route("**/api/**", (route) => {
    const { pathname } = new URL(route.request().url());
    const answer = answers[`${route.request().method()} ${pathname}`];
    if (answer === null) return undefined;
    const [status, json] = Array.isArray(answer) && typeof answer[0] === "number" ? answer : answer ? [200, answer] : [404, { code: "not_found" }];
    return route.fulfill({ status, json, headers: status < 400 ? {} : { "retry-after": "7" } });
  });
}

const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Opens a state in a page of this origin. Resolves when it is shown. */
export async function openState(page, { path, answers, user = null, act, until }) {
  // A page that is shown sends nothing more.
  await page.goto("/robots.txt");
  await answerWith(page, answers(Date.now()));
  await page.evaluate((token) => {
    localStorage.clear();
    sessionStorage.clear();
    if (token) localStorage.setItem("stampede.token", token);
  }, user && `x.${encode({ sub: user, exp: 4_000_000_000 })}.x`);
  await page.goto(path);
  await act?.(page);
  if (until) await page.locator(until).first().waitFor({ timeout: 15_000 });
}

/** Runs in the page: what is wider than the screen, or than its own box. */
export function overflows() {
  const problems = document.documentElement.scrollWidth > innerWidth ? [`the page is ${document.documentElement.scrollWidth} wide`] : [];
  for (const node of document.querySelectorAll(".button, .chip, .action-bar-note > *, .card, .price, .clock, h1, h2, .notice")) {
    if (!node.checkVisibility({ visibilityProperty: true })) continue;
    const isTooTall = node.closest(".action-bar-note") && node.getBoundingClientRect().height > node.parentElement.clientHeight + 1;
    if (node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0 || isTooTall) problems.push(`${node.tagName}.${node.className}: ${node.textContent.trim().slice(0, 60)}`);
  }
  return problems;
}
