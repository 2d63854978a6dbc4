// The editor of a sale: every field of the description, and where the server found a mistake.

import { byId, el, say } from "../shared/dom.js";
import { explain, notice, sale, send } from "./desk.js";
import { fillLimits, readLimits } from "./limits.js";
import { addSku, fillSkus, readSkus } from "./sku-rows.js";

const MINUTE = 60_000;
const DIGITS = /^\d+$/;

let saved = () => {};
let version = 0;

/** Calls `watcher` after a sale was saved. */
export const onSaved = (watcher) => (saved = watcher);

byId("sale-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void save(event.submitter ?? event.target.querySelector(".primary"));
});
byId("f-close").addEventListener("click", () => byId("editor").close());
byId("f-add-sku").addEventListener("click", () => addSku().focus());

/** Opens the editor with a sale, or with a new one for `null`. */
export function edit(spec) {
  const start = Math.ceil((Date.now() + 10 * MINUTE) / MINUTE) * MINUTE;
  const shown = spec ?? {
    id: "", title: "", starts_at: new Date(start).toISOString(), ends_at: new Date(start + 60 * MINUTE).toISOString(),
  };
  version = spec?.version ?? 0;
  say(byId("editor-title"), spec ? `Edit ${spec.id}` : "New sale");
  byId("f-id").value = shown.id;
  byId("f-id").readOnly = Boolean(spec);
  byId("f-title").value = shown.title;
  byId("f-description").value = shown.description ?? "";
  byId("f-image").value = shown.image ?? "";
  byId("f-starts").value = local(shown.starts_at);
  byId("f-ends").value = local(shown.ends_at);
  byId("f-per-user").value = shown.per_user ?? 1;
  byId("f-pay-timeout").value = shown.pay_timeout_seconds ?? 300;
  byId("f-pay-extension").value = shown.pay_extension_seconds ?? 0;
  byId("f-check").value = shown.human_check ?? "none";
  byId("f-max-wait").value = shown.max_wait_seconds ?? 60;
  byId("f-level").value = shown.eligibility?.min_level ?? 0;
  byId("f-allow").value = (shown.eligibility?.allow ?? []).join("\n");
  byId("f-members").checked = shown.eligibility?.members_only ?? false;
  byId("f-restocks").checked = shown.refund_restocks ?? true;
  fillSkus(shown.skus ?? []);
  fillLimits(shown.limits ?? {});
  complain([]);
  byId("editor").showModal();
  byId(spec ? "f-title" : "f-id").focus();
}

function read() {
  return {
    title: byId("f-title").value.trim(),
    description: byId("f-description").value,
    image: byId("f-image").value.trim(),
    starts_at: instant(byId("f-starts").value),
    ends_at: instant(byId("f-ends").value),
    per_user: whole("f-per-user"),
    pay_timeout_seconds: whole("f-pay-timeout"),
    pay_extension_seconds: whole("f-pay-extension"),
    max_wait_seconds: whole("f-max-wait"),
    human_check: byId("f-check").value,
    eligibility: {
      members_only: byId("f-members").checked,
      min_level: whole("f-level"),
      allow: byId("f-allow").value.split("\n").map((user) => user.trim()).filter(Boolean),
    },
    refund_restocks: byId("f-restocks").checked,
    limits: readLimits(),
    skus: readSkus(),
  };
}

async function save(button) {
  const id = byId("f-id").value.trim();
  const bad = [...byId("sale-form").elements].find((field) => !field.checkValidity());
  if (bad) return complain([{ pointer: bad.dataset.pointer, detail: bad.validationMessage, field: bad }]);
  button.disabled = true;
  try {
    await send("PUT", sale(id), read(), version);
    byId("editor").close();
    notice(`The sale ${id} is saved.`);
    await saved();
  } catch (error) {
    complain(error.errors?.length ? error.errors : [{ detail: explain(error) }]);
  } finally {
    button.disabled = false;
  }
}

/** Shows each mistake at its field, and those without one at the top. */
function complain(mistakes) {
  for (const old of byId("sale-form").querySelectorAll(".complaint")) old.remove();
  for (const old of byId("sale-form").querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  const homeless = [];
  mistakes.forEach(({ pointer, detail, field }, index) => {
    const place = field ?? (pointer && byId("sale-form").querySelector(`[data-pointer="${CSS.escape(pointer)}"]`));
    if (!place) return homeless.push(pointer ? `${pointer} ${detail}` : detail);
    place.setAttribute("aria-invalid", "true");
    place.closest(".field")?.append(el("span", { class: "complaint", role: "alert" }, detail));
    if (index === 0) place.focus();
  });
  say(byId("form-trouble"), homeless.join(" · "));
}

const whole = (id) => (DIGITS.test(byId(id).value) ? Number(byId(id).value) : NaN);

/** A moment for a `datetime-local` field, which has no time zone of its own. */
function local(text) {
  const date = new Date(text);
  return new Date(date.getTime() - date.getTimezoneOffset() * MINUTE).toISOString().slice(0, 19);
}

const instant = (text) => new Date(text).toISOString();
