// Measures the buyers' pages in Chromium, behind the nginx of the self-hosted kit and from the engine itself: bytes, requests
// and time until a visitor reads and can act on 3G, with an empty cache and a filled one, and Lighthouse's scores. Prints
// tables in Markdown.

import { createHash, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import lighthouse from "lighthouse";
import puppeteer from "puppeteer-core";
import { eventually, publishActivity, reserve, signIn, untilOrder, untilPhase, url, variable } from "../support/app.mjs";

const ROUNDS = 5;
const LATENCY_MS = 400;
/** 400 kbit/s, in bytes. */
const BYTES_PER_SECOND = 50_000;
/** A new connection takes a round trip for TCP and one for TLS 1.3, which Chromium's emulation does not delay. */
const SITES = {
  nginx: { origin: variable("SITE"), connectMs: 2 * LATENCY_MS },
  engine: { origin: url(), connectMs: LATENCY_MS },
};
/** With an empty cache. */
const GOALS_MS = { content: 1_800, usable: 3_500 };
const GOAL_SCORE = 95;
const CATEGORIES = ["performance", "accessibility", "best-practices", "seo"];

const buyer = await signIn();
const pages = await preparePages();
const browser = await startChromium();
try {
  const speeds = [];
  for (const page of pages) {
    for (const [name, site] of Object.entries(SITES)) speeds.push(...(await measureSpeed(page, name, site)));
  }
  printTable(["page", "from", "cache", "content after", "usable after", "range", "requests", "bytes", "goals"], speeds);
  const scores = [];
  for (const page of pages) scores.push(await measureScores(page));
  printTable(["page", ...CATEGORIES, `goal ${GOAL_SCORE}`], scores);
} finally {
  await browser.close();
}

/** The pages, each with the element that is its content, and the one by which the buyer acts. */
async function preparePages() {
  const demo = { title: "Analogue Days", description: "Ten cameras.", image: "/demo/camera.svg", per_user: 2 };
  const [id, bought] = [await publishActivity(demo), await publishActivity(demo)];
  await untilPhase(id, { phases: ["open"] });
  // Somebody has opened list and sale before: their data are in the HTML.
  for (const [path, api] of [["/", "/api/activities"], [`/sale?activity=${id}`, `/api/activities/${id}`]]) {
    await fetch(url() + api);
    await eventually(`data in ${path}`, async () => ({ done: (await (await fetch(url() + path)).text()).includes('id="first-') }));
  }
  const { order_no: order } = await reserve(bought, buyer);
  await untilOrder(order, "pending_payment", buyer);
  return [
    { name: "list", path: "/", content: "[data-testid=sale-link]", usable: "[data-testid=sale-link]" },
    { name: "sale", path: `/sale?activity=${id}`, content: "#title:not(:empty)", usable: "[data-testid=buy]:enabled" },
    { name: "order", path: `/order?order_no=${order}`, content: "[data-testid=pay]", usable: "[data-testid=pay]", isPrivate: true },
  ];
}

/** Starts Chromium. It keeps nothing of a page whose certificate it only tolerates, so it trusts nginx's. */
async function startChromium() {
  const { publicKey } = new X509Certificate(await readFile(variable("CERTIFICATE")));
  const key = createHash("sha256").update(publicKey.export({ type: "spki", format: "der" })).digest("base64");
  return puppeteer.launch({
    executablePath: process.env.STAMPEDE_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", `--ignore-certificate-errors-spki-list=${key}`],
  });
}

/** Opens a page of a new profile whose buyer is signed in. */
async function newPage() {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.evaluateOnNewDocument((token) => localStorage.setItem("stampede.token", token), buyer.token);
  return page;
}

/** Loads a page several times with an empty cache, each time once more with the filled one. */
async function measureSpeed({ name, path, isPrivate, ...selectors }, from, { origin, connectMs }) {
  const loads = { cold: [], warm: [] };
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = await newPage();
    await page.evaluateOnNewDocument(recordTimes, selectors);
    await page.emulateNetworkConditions({ download: BYTES_PER_SECOND, upload: BYTES_PER_SECOND, latency: LATENCY_MS });
    for (const cache of ["cold", "warm"]) {
      const load = await loadPage(page, origin + path);
      for (const what of ["content", "usable"]) load[what] += cache === "cold" ? connectMs : 0;
      loads[cache].push(load);
      await page.goto("about:blank");
    }
    await page.browserContext().close();
  }
  return Object.entries(loads).map(([cache, measured]) => {
    const [contents, usables] = ["content", "usable"].map((what) => measured.map((load) => load[what]).sort((a, b) => a - b));
    const [content, usable] = [contents, usables].map((times) => times[Math.floor(ROUNDS / 2)]);
    const { requests, bytes } = measured[0];
    // What only its buyer may read comes with a request of the modules: it is there when the page is usable.
    const isMet = (isPrivate || content <= GOALS_MS.content) && usable <= GOALS_MS.usable;
    return [
      name, from, cache, seconds(content), seconds(usable), `${seconds(usables[0])}–${seconds(usables.at(-1))}`, requests,
      bytes.toLocaleString("en"), isMet ? "met" : "MISSED",
    ];
  });
}

/** Runs in the page: notes when each element is painted. */
function recordTimes(selectors) {
  globalThis.seen = {};
  const look = () => {
    for (const [what, selector] of Object.entries(selectors)) {
      const element = document.querySelector(selector);
      const isVisible = element?.getClientRects().length && getComputedStyle(element).visibility === "visible";
      const isPainted = isVisible && performance.getEntriesByName("first-contentful-paint").length > 0;
      if (isPainted) globalThis.seen[what] ??= performance.now();
    }
    if (!globalThis.seen.usable) requestAnimationFrame(look);
  };
  look();
}

/** Resolves to the times until the content is painted and the page is usable, and what came over the network by then. */
async function loadPage(page, target) {
  const session = await page.createCDPSession();
  await session.send("Network.enable");
  const load = { requests: 0, bytes: 0 };
  const fromCache = new Set();
  session.on("Network.requestServedFromCache", ({ requestId }) => fromCache.add(requestId));
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (fromCache.has(requestId) || encodedDataLength === 0) return;
    load.requests += 1;
    load.bytes += encodedDataLength;
  });
  await page.goto(target, { waitUntil: "domcontentloaded", timeout: 60_000 });
  const seen = await page.waitForFunction(() => globalThis.seen.usable && globalThis.seen, { timeout: 60_000 });
  Object.assign(load, await seen.jsonValue());
  await session.detach();
  return load;
}

/** Lighthouse's scores for a phone, with its own emulation of a slow network and processor: medians of some runs. */
async function measureScores({ name, path, isPrivate }) {
  // Search engines are kept from a buyer's order by robots.txt.
  const skipAudits = isPrivate ? ["is-crawlable"] : [];
  const settings = { onlyCategories: CATEGORIES, disableStorageReset: true, skipAudits };
  const runs = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = await newPage();
    const { lhr } = await lighthouse(SITES.nginx.origin + path, { output: "json" }, { extends: "lighthouse:default", settings }, page);
    runs.push(lhr);
    await page.browserContext().close();
  }
  const scores = CATEGORIES.map((category) => {
    const [worst, middle] = [0, (ROUNDS - 1) / 2].map((index) => [...runs].sort(byScore(category))[index]);
    printReasons(`${name}, ${category}`, worst, category);
    return Math.round(middle.categories[category].score * 100);
  });
  return [name, ...scores, scores.every((score) => score >= GOAL_SCORE) ? "met" : "MISSED"];
}

function byScore(category) {
  return (a, b) => a.categories[category].score - b.categories[category].score;
}

/** Prints the audits that a run failed, if its score misses the goal. */
function printReasons(what, { categories, audits }, category) {
  const { score, auditRefs } = categories[category];
  if (score * 100 >= GOAL_SCORE) return;
  const failed = auditRefs.map(({ id, weight }) => ({ ...audits[id], weight })).filter((it) => it.weight && it.score < 0.9);
  const reasons = failed.map(({ id, displayValue = "" }) => `${id} ${displayValue}`);
  console.log(`${what}, the worst run: ${Math.round(score * 100)}: ${reasons.join("; ")}`);
}

function seconds(milliseconds) {
  return `${(milliseconds / 1_000).toFixed(1)} s`;
}

function printTable(head, rows) {
  console.log([head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n") + "\n");
}
