// A hosted human check: the widget of a provider such as Turnstile or hCaptcha, loaded only when an activity has one.

import { Problem, Unreachable } from "../shared/client.js";
import { el } from "../shared/dom.js";
import { language, t } from "../shared/i18n.js";

/** How long to wait for the provider's script, in milliseconds. */
const SCRIPT_TIMEOUT = 15_000;

/** Shows the widget in `container`. Resolves to `{proof}`, its token. */
export async function solveHostedCheck({ script, site_key: sitekey, action }, container, onStatus) {
  const widget = await loadWidget(script);
  onStatus(t("check.hosted"));
  const box = el("div", { class: "hosted-check", testid: "hosted-check" });
  const form = el("div", { class: "puzzle", "data-waits": "" }, box);
  container.replaceChildren(form);
  try {
    return await new Promise((resolve, reject) => {
      const failed = () => reject(new Problem({ status: 403, code: "human_check_failed" }));
      widget.render(box, {
        sitekey, action, language, hl: language, callback: (hosted) => resolve({ proof: { hosted } }), "error-callback": failed,
        "expired-callback": failed,
      });
    });
  } finally {
    form.remove();
  }
}

let loading = null;

function loadWidget(src) {
  return (loading ??= load(src).catch((error) => {
    loading = null;
    throw error;
  }));
}

async function load(src) {
  const script = el("script", { src });
  let failed = false;
  script.addEventListener("error", () => (failed = true));
  document.head.append(script);
  // The providers' scripts load further ones before they can render.
  for (let waited = 0; waited < SCRIPT_TIMEOUT && !failed; waited += 50) {
    const widget = globalThis.turnstile ?? globalThis.hcaptcha;
    if (widget?.render) return widget;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  script.remove();
  throw new Unreachable("the human check did not load");
}
