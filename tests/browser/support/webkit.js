// WebKitGTK's small browser on a virtual screen, driven by its own WebDriver.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Builder, By, until } from "selenium-webdriver";
import portprober from "selenium-webdriver/net/portprober.js";
import { eventually, url } from "./app.js";

/** A selector, or the `data-testid` of an element. */
const locator = (name) => By.css(/^[\w-]+$/.test(name) ? `[data-testid="${name}"]` : name);

/** Starts a program that ends with this process at the latest. */
function start(...command) {
  const program = spawn(...command);
  process.once("exit", () => program.kill());
  return program;
}

/** Starts the screen, the driver and a browser with an empty profile. */
export async function startWebKit() {
  const screen = start("Xvfb", ["-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [display] = await once(createInterface(screen.stdout), "line");
  const port = await portprober.findFreePort();
  const server = start("WebKitWebDriver", [`--port=${port}`, "--host=127.0.0.1"], {
    env: { ...process.env, DISPLAY: `:${display}`, LC_ALL: "C", GDK_BACKEND: "x11" },
    stdio: "inherit",
  });
  const address = `http://127.0.0.1:${port}`;
  await eventually("WebKitWebDriver answering", async () => ({
    done: await fetch(`${address}/status`).then(({ ok }) => ok, () => false),
  }));
  const driver = await new Builder().usingServer(address).forBrowser("MiniBrowser").build();
  return new WebKit(driver, [server, screen]);
}

// Runs in the page. Notes errors where the next page of this origin keeps them.
function recordErrors() {
  if (globalThis.isRecording) return;
  globalThis.isRecording = true;
  const record = (text) => sessionStorage.setItem("errors", `${sessionStorage.getItem("errors") ?? ""}${text}\n`);
  const log = console.error;
  console.error = (...values) => {
    record(values.join(" "));
    log(...values);
  };
  addEventListener("error", ({ message }) => message && record(message));
  addEventListener("unhandledrejection", ({ reason }) => record(`${reason}`));
  addEventListener("securitypolicyviolation", ({ violatedDirective }) => record(`refused by ${violatedDirective}`));
}

/** The browser. A name in its methods is a `data-testid`, a selector, or `host >>> selector` for what is in a shadow tree. */
class WebKit {
  constructor(driver, programs) {
    Object.assign(this, { driver, programs });
  }

  /** What scripts logged as errors or threw, and what the content security policy refused, since each page was seen. */
  async errors() {
    return (await this.driver.executeScript(() => sessionStorage.getItem("errors") ?? "")).split("\n").filter(Boolean);
  }

  /** Adds an inline script to the page. Resolves to whether it ran. */
  runsInlineScript() {
    return this.driver.executeScript(() => {
      const script = document.createElement("script");
      script.textContent = "globalThis.ran = true";
      document.body.append(script);
      return globalThis.ran === true;
    });
  }

  open(path) {
    return this.driver.get(new URL(path, url()).href);
  }

  #find(name) {
    const [host, inner] = name.split(" >>> ");
    return inner ? this.driver.executeScript((host, inner) => document.querySelector(host).shadowRoot.querySelector(inner), host, inner)
      : this.driver.findElement(locator(name));
  }

  /** Reloads the page until it has the element. */
  async reloadUntilShown(name) {
    await eventually(`${name} being shown`, async () => {
      const done = await this.driver.wait(until.elementLocated(locator(name)), 2_000).then(() => true, () => false);
      if (!done) await this.driver.navigate().refresh();
      return { done };
    });
  }

  /** Runs `step(element)`, which resolves to `{done, value}`, until it is done, on this page or the next one. */
  #eventually(what, name, step) {
    return eventually(what, async () => {
      try {
        const element = await this.#find(name);
        await this.driver.executeScript(recordErrors);
        return (await element.isDisplayed()) ? await step(element) : { done: false, value: "hidden" };
      } catch (error) {
        // The element is not there yet, or that of a page that is being left.
        return { done: false, value: error.name };
      }
    });
  }

  click(name) {
    return this.#eventually(`a click on ${name}`, name, async (element) => {
      if (!(await element.isEnabled())) return { done: false, value: "disabled" };
      // Not behind the bar at the bottom. An option has no box of its own.
      await this.driver.executeScript("(arguments[0].closest('select') ?? arguments[0]).scrollIntoView({ block: 'center' })", element);
      await element.click();
      return { done: true };
    });
  }

  fill(name, text) {
    return this.#eventually(`${name} being filled`, name, async (element) => {
      await element.clear();
      await element.sendKeys(text);
      return { done: true };
    });
  }

  /** The text of the element, and whether it can be clicked. */
  read(name) {
    return this.#eventually(`${name} being shown`, name, async (element) => ({
      done: true, value: [await element.getText(), await element.isEnabled()],
    }));
  }

  /** Waits until `matches` is true for the element's text. Resolves to the text. */
  untilText(name, matches) {
    return this.#eventually(`${name} showing ${matches}`, name, async (element) => {
      const value = await element.getText();
      return { done: typeof matches === "string" ? value.includes(matches) : matches(value), value };
    });
  }

  /** The address, the text and the errors of the page, for the report of a failed test. */
  async describe() {
    const shown = [this.driver.getCurrentUrl(), this.driver.findElement(By.css("body")).getText(), this.errors()];
    return (await Promise.allSettled(shown)).map(({ value, reason }) => value ?? reason).join("\n");
  }

  async stop() {
    await this.driver.quit().catch(() => {});
    for (const program of this.programs) program.kill();
  }
}
