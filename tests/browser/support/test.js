// The tests' `test`: pages that fail a test on script errors and violations of the content security policy.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { test as base, expect } from "@playwright/test";
import { targetDirectory, url } from "./app.js";

export { expect };

// Runs in the page before its own scripts. Removes what Safari 15.4 or Chrome 96 lacks.
function removeNewApis() {
  const added = [
    [AbortSignal, ["any", "timeout"]], [AbortSignal.prototype, ["reason", "throwIfAborted"]],
    [Array, ["fromAsync"]], [Array.prototype, ["findLast", "findLastIndex", "toReversed", "toSorted", "toSpliced", "with"]],
    [Element.prototype, ["checkVisibility", "setHTMLUnsafe"]], [HTMLElement.prototype, ["popover", "showPopover"]],
    [Map, ["groupBy"]], [Object, ["groupBy"]], [Promise, ["try", "withResolvers"]],
    [Set.prototype, ["difference", "intersection", "isSubsetOf", "isSupersetOf", "symmetricDifference", "union"]],
    [String.prototype, ["isWellFormed", "toWellFormed"]], [URL, ["canParse", "parse"]],
    [globalThis, ["Iterator", "OffscreenCanvas", "requestIdleCallback", "scheduler", "structuredClone"]],
  ];
  for (const [object, names] of added) for (const name of names) delete object[name];
}

// Firefox reports violations of the content security policy to its own console only.
function logViolations() {
  addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
    console.error(`the content security policy refused ${blockedURI} (${violatedDirective})`);
  });
}

export const test = base.extend({
  /** For the tests of a file: variables of an app of its own, instead of the app that all files share. */
  variables: [null, { option: true, scope: "worker" }],

  app: [async ({ variables }, use) => {
    if (!variables) return use();
    const options = Object.entries(variables).flatMap(([name, value]) => ["--variable", `${name}=${value}`]);
    // The command prints its environment and waits until its input ends, at the latest with this process.
    const command = [process.execPath, "-e", "console.log(JSON.stringify(process.env)); process.stdin.resume()"];
    const app = spawn(`${targetDirectory}/release/with-app`, [...options, ...command], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const [environment] = await once(createInterface(app.stdout), "line");
    Object.assign(process.env, JSON.parse(environment));
    await use();
    app.stdin.end();
    await once(app, "exit");
  }, { scope: "worker", auto: true }],

  /** Whether pages lack what browsers of five years ago lack. */
  oldBrowser: [false, { option: true }],

  baseURL: ({ app: _ }, use) => use(url()),

  /** The texts of the pages in the language of the project. */
  words: async ({ locale }, use) => {
    const file = new URL(`../../../static/assets/js/words/${locale.slice(0, 2)}.js`, import.meta.url);
    // Node takes a file for a module by its folder's package.json, which the pages do not have.
    const text = (await readFile(file, "utf8")).replace("../../client/", new URL("../../../clients/js/src/", import.meta.url));
    const module = await import(`data:text/javascript,${encodeURIComponent(text)}`);
    await use(module.words);
  },

  /** Opens a page in a new profile: `newPage(path, options)`, with the options of `browser.newContext`. */
  newPage: async ({ browser, oldBrowser }, use, { errors: failures }) => {
    const [pages, errors] = [[], []];
    await use(async (path, options) => {
      const context = await browser.newContext(options);
      // Chromium also logs error responses that the page handles, Firefox requests that end with the page: ignore them.
      const note = (text) => {
        if (!text.startsWith("Failed to load resource") && !text.includes("CORS request did not succeed")) errors.push(text);
      };
      context.on("weberror", (error) => note(error.error().stack ?? `${error.error()}`));
      context.on("console", (message) => message.type() === "error" && note(message.text()));
      await context.addInitScript(logViolations);
      if (oldBrowser) await context.addInitScript(removeNewApis);
      const page = await context.newPage();
      pages.push(page);
      if (path) await page.goto(path);
      return page;
    });
    for (const page of pages) {
      if (failures.length) console.log(`${page.url()} showed:\n${await page.innerText("body").catch(() => "nothing")}`);
      // Closing the page fails requests that are still intercepted by a route of the test: ignore these errors.
      await Promise.all([page, page.context()].map((routed) => routed.unrouteAll({ behavior: "ignoreErrors" })));
      await page.context().close();
    }
    expect(errors, "script errors of the pages").toEqual([]);
  },

  page: async ({ newPage }, use) => use(await newPage()),
});
