// Runs the stories in Debian's Chromium, and the main ones in Firefox ESR and WebKitGTK, against the app that `with-app`
// started.

import { defineConfig, devices } from "@playwright/test";
import { targetDirectory } from "./support/app.js";

export default defineConfig({
  testDir: "stories",
  testMatch: "*.js",
  outputDir: `${targetDirectory}/browser`,
  // Most tests wait most of the time. They share the app: each has an activity and users of its own.
  fullyParallel: true,
  workers: 3,
  forbidOnly: true,
  reporter: "list",
  timeout: 240_000,
  // Less than a minute, after which a page loads its activity anyway and could hide a missing update.
  expect: { timeout: 40_000 },
  use: {
    actionTimeout: 40_000,
    navigationTimeout: 40_000,
    locale: "en-GB",
    launchOptions: {
      executablePath: process.env.STAMPEDE_CHROMIUM ?? "/usr/bin/chromium",
      args: [
        "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync",
      ],
      timeout: 180_000,
      // The back/forward cache is on, as in the browsers of buyers.
      ignoreDefaultArgs: ["--disable-back-forward-cache"],
    },
  },
  projects: [
    { name: "desktop", grepInvert: /@webkit/ },
    { name: "phone in Chinese", grep: /@main|@phone/, use: { ...devices["Pixel 7"], locale: "zh-CN" } },
    { name: "old browser", grep: /@main/, use: { oldBrowser: true } },
    {
      name: "Firefox", grep: /@main/,
      // The `moz-` channels drive an unchanged Firefox by WebDriver BiDi.
      use: {
        browserName: "firefox", channel: "moz-firefox",
        launchOptions: { executablePath: process.env.STAMPEDE_FIREFOX ?? "/usr/bin/firefox-esr", timeout: 180_000 },
      },
    },
    { name: "WebKit", grep: /@webkit/ },
  ],
});
