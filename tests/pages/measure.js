// Measures the buyers' pages in Chromium behind the nginx of the self-hosted kit: bytes, requests and time until the
// buyer can act on 3G, with an empty cache and a filled one, and Lighthouse's scores. Prints tables in Markdown.

import { createHash, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import lighthouse from "lighthouse";
import puppeteer from "puppeteer-core";
import { publishActivity, reserve, signIn, untilOrder, untilPhase, variable } from "../support/app.mjs";

const ROUNDS = 5;
const LATENCY_MS = 400;
/** 400 kbit/s, in bytes. */
const BYTES_PER_SECOND = 50_000;
/** A new connection takes a round trip for TCP and one for TLS 1.3, which Chromium's emulation does not delay. */
const CONNECT_MS = 2 * LATENCY_MS;
const GOALS_MS = { cold: 6_000, warm: 3_000 };
const GOAL_SCORE = 95;
const CATEGORIES = ["performance", "accessibility", "best-practices", "seo"];

const site = variable("SITE");
const buyer = await signIn();
const pages = await preparePages();
const browser = await startChromium();
try {
  const speeds = [];
  for (const page of pages) speeds.push(...(await measureSpeed(page)));
  printTable(["page", "cache", "usable after", "range", "requests", "bytes", "goal"], speeds);
  const scores = [];
  for (const page of pages) scores.push(await measureScores(page));
  printTable(["page", ...CATEGORIES, `goal ${GOAL_SCORE}`], scores);
} finally {
  await browser.close();
}

/** The pages, each with the element by which the buyer acts. */
async function preparePages() {
  const demo = { title: "Analogue Days", description: "Ten cameras.", image: "/demo/camera.svg", per_user: 2 };
  const [id, bought] = [await publishActivity(demo), await publishActivity(demo)];
  await untilPhase(id, { phases: ["open"] });
  const { order_no: order } = await reserve(bought, buyer);
  await untilOrder(order, "pending_payment", buyer);
  return [
    { name: "list", path: "/", usable: "[data-testid=sale-link]" },
    { name: "sale", path: `/sale?activity=${id}`, usable: "[data-testid=buy]:enabled" },
    { name: "order", path: `/order?order_no=${order}`, usable: "[data-testid=pay]", isPrivate: true },
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
async function measureSpeed({ name, path, usable }) {
  const loads = { cold: [], warm: [] };
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = await newPage();
    await page.emulateNetworkConditions({ download: BYTES_PER_SECOND, upload: BYTES_PER_SECOND, latency: LATENCY_MS });
    for (const cache of ["cold", "warm"]) {
      const load = await loadPage(page, site + path, usable);
      load.time += cache === "cold" ? CONNECT_MS : 0;
      loads[cache].push(load);
      await page.goto("about:blank");
    }
    await page.browserContext().close();
  }
  return Object.entries(loads).map(([cache, measured]) => {
    const times = measured.map(({ time }) => time).sort((a, b) => a - b);
    const median = times[Math.floor(ROUNDS / 2)];
    const { requests, bytes } = measured[0];
    return [
      name, cache, seconds(median), `${seconds(times[0])}–${seconds(times.at(-1))}`, requests, bytes.toLocaleString("en"),
      `${seconds(GOALS_MS[cache])} ${median <= GOALS_MS[cache] ? "met" : "MISSED"}`,
    ];
  });
}

/** Resolves to the time until the element is usable, and what came over the network by then. */
async function loadPage(page, url, usable) {
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
  await page.goto(url, { waitUntil: "domcontentloaded", timeout: 60_000 });
  const handle = await page.waitForFunction(
    (selector) => {
      const element = document.querySelector(selector);
      return element?.getClientRects().length ? performance.now() : false;
    },
    { timeout: 60_000 },
    usable,
  );
  load.time = await handle.jsonValue();
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
    const { lhr } = await lighthouse(site + path, { output: "json" }, { extends: "lighthouse:default", settings }, page);
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
