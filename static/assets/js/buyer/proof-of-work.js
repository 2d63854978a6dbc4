// Proof of work, solved by ALTCHA's widget in a web worker. The widget is loaded only when an activity requires it.

import { Problem, Unreachable } from "../shared/client.js";
import { el } from "../shared/dom.js";
import { language, t } from "../shared/i18n.js";

/** Shows the widget in `container` and solves `challenge`. Resolves to the widget's payload; `onRemoved` is called later. */
export async function solveProofOfWork(challenge, container, onRemoved) {
  await ensureWidget();
  return new Promise((resolve, reject) => {
    const widget = el("altcha-widget", {
      challenge: JSON.stringify(challenge),
      auto: "onload",
      language,
      configuration: JSON.stringify({ hideFooter: true, humanInteractionSignature: false, minDuration: 0 }),
      testid: "altcha",
    });
    widget.addEventListener("statechange", ({ detail: { state, payload } }) => {
      if (state === "verified") {
        resolve(payload);
        // Leaves the result visible for a moment before the widget is removed.
        setTimeout(() => onRemoved(widget.remove()), 1_500);
      } else if (state === "error" || state === "expired") {
        widget.remove();
        reject(new Problem({ status: 403, code: "human_check_failed" }));
      }
    });
    container.replaceChildren(widget);
  });
}

let widgetLoading = null;

function ensureWidget() {
  return (widgetLoading ??= loadWidget().catch((error) => {
    widgetLoading = null;
    throw new Unreachable(String(error));
  }));
}

async function loadWidget() {
  const style = new URL("../../vendor/altcha/altcha.css", import.meta.url);
  document.head.append(el("link", { rel: "stylesheet", href: style.href }));
  await import("../../vendor/altcha/altcha.js");
  const worker = new URL("../../vendor/altcha/pbkdf2.js", import.meta.url);
  const { algorithms, i18n } = globalThis.$altcha;
  algorithms.set("PBKDF2/SHA-256", () => new Worker(worker));
  const texts = { label: t("check.title"), verifying: t("check.verifying"), verified: t("check.verified") };
  i18n.set(language, { ...i18n.get("en"), ...texts });
}
