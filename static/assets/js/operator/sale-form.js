// The editor of an activity, which shows each error of the server at its field.

import { byId, el, setText } from "../shared/dom.js";
import { activityPath, explain, send, showNotice } from "./requests.js";
import { fillLimits, readLimits } from "./limits.js";
import { addSku, fillSkus, readSkus, translated } from "./sku-rows.js";

const MINUTE = 60_000;
/** In seconds. */
const DAY = 86_400;
const DIGITS = /^\d+$/;
/** The fields of the word from the shop, with their languages. */
const WORDS = [["f-word", "en"], ["f-word-zh", "zh"]];

let saveCallback = () => {};
let version = 0;
/** The translations that the form does not show. */
let kept = {};

/** Sets the function that is called after an activity was saved. */
export const onSave = (callback) => (saveCallback = callback);

byId("sale-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void save(event.submitter ?? event.target.querySelector(".primary"));
});
byId("f-close").addEventListener("click", () => byId("editor").close());
for (const id of ["f-restocks", "f-refund-days"]) byId(id).addEventListener("input", showRefundRisk);
byId("f-add-sku").addEventListener("click", () => addSku().focus());

/** Opens the editor with an activity, or with the defaults of a new one for `null`. */
export function openForm(spec) {
  if (!spec) return openNew({ title: "" }, 60 * MINUTE);
  version = spec.version;
  fill(spec, `Edit ${spec.id}`);
  byId("f-title").focus();
}

/** Opens the editor with a new activity that is like this one, and as long. */
export function openCopy(spec) {
  openNew({ ...spec, announcement: undefined }, Date.parse(spec.ends_at) - Date.parse(spec.starts_at));
}

function openNew(spec, duration) {
  const start = Math.ceil((Date.now() + 10 * MINUTE) / MINUTE) * MINUTE;
  const [startsAt, endsAt] = [start, start + duration].map((time) => new Date(time).toISOString());
  version = 0;
  fill({ ...spec, id: "", starts_at: startsAt, ends_at: endsAt }, "New sale");
  byId("f-id").focus();
}

function fill(values, title) {
  kept = { titles: values.titles, descriptions: values.descriptions, announcement: values.announcement };
  setText(byId("editor-title"), title);
  byId("f-id").value = values.id;
  byId("f-id").readOnly = version > 0;
  byId("f-title").value = values.title;
  byId("f-description").value = values.description ?? "";
  byId("f-title-zh").value = values.titles?.zh ?? "";
  byId("f-description-zh").value = values.descriptions?.zh ?? "";
  byId("f-image").value = values.image ?? "";
  for (const [id, language] of WORDS) byId(id).value = values.announcement?.[language] ?? "";
  byId("f-starts").value = toLocalInput(values.starts_at);
  byId("f-ends").value = toLocalInput(values.ends_at);
  byId("f-per-user").value = values.per_user ?? 1;
  byId("f-pay-timeout").value = values.pay_timeout_seconds ?? 300;
  byId("f-pay-extension").value = values.pay_extension_seconds ?? 0;
  byId("f-checkout").value = values.checkout ?? "form";
  byId("f-check").value = values.human_check ?? "none";
  byId("f-difficulty").value = values.min_difficulty ?? 1;
  byId("f-max-wait").value = values.max_wait_seconds ?? 60;
  byId("f-level").value = values.eligibility?.min_level ?? 0;
  byId("f-allow").value = (values.eligibility?.allow ?? []).join("\n");
  byId("f-groups").value = (values.eligibility?.groups ?? []).join("\n");
  byId("f-members").checked = values.eligibility?.members_only ?? false;
  byId("f-restocks").checked = values.refund_restocks ?? true;
  byId("f-refund-days").value = values.refund_window_seconds === undefined ? "" : values.refund_window_seconds / DAY;
  showRefundRisk();
  fillSkus(values.skus ?? []);
  fillLimits(values.limits ?? {});
  showErrors([]);
  byId("editor").showModal();
}

/** Warns of a sale that buyers can empty for nothing. */
function showRefundRisk() {
  const isRisky = !byId("f-restocks").checked && Number(byId("f-refund-days").value || Infinity) > 0;
  const text = "Buyers can take every unit off sale and have their money back: set the days to 0, or put refunded units back on sale.";
  setText(byId("f-refund-risk"), isRisky ? text : "");
}

function readForm() {
  const refundDays = byId("f-refund-days").value;
  return {
    title: byId("f-title").value.trim(),
    titles: translated(kept.titles, "zh", byId("f-title-zh").value.trim()),
    description: byId("f-description").value,
    descriptions: translated(kept.descriptions, "zh", byId("f-description-zh").value),
    image: byId("f-image").value.trim(),
    starts_at: toRfc3339(byId("f-starts").value),
    ends_at: toRfc3339(byId("f-ends").value),
    per_user: wholeNumber("f-per-user"),
    pay_timeout_seconds: wholeNumber("f-pay-timeout"),
    pay_extension_seconds: wholeNumber("f-pay-extension"),
    max_wait_seconds: wholeNumber("f-max-wait"),
    checkout: byId("f-checkout").value,
    human_check: byId("f-check").value,
    min_difficulty: wholeNumber("f-difficulty"),
    eligibility: {
      members_only: byId("f-members").checked,
      min_level: wholeNumber("f-level"),
      // White space is part of a user's name: the server says which name no token can have.
      allow: lines("f-allow"),
      groups: lines("f-groups").map((group) => group.trim()),
    },
    refund_restocks: byId("f-restocks").checked,
    refund_window_seconds: refundDays === "" ? undefined : Math.round(Number(refundDays) * DAY),
    limits: readLimits(),
    skus: readSkus(),
  };
}

async function save(button) {
  const id = byId("f-id").value.trim();
  const invalid = [...byId("sale-form").elements].find((field) => !field.checkValidity());
  if (invalid) {
    return showErrors([{ pointer: invalid.dataset.pointer, detail: invalid.validationMessage, field: invalid }]);
  }
  button.disabled = true;
  try {
    ({ version } = await send("PUT", activityPath(id), readForm(), version));
    await announce(id);
    byId("editor").close();
    showNotice(`The sale ${id} is saved.`);
    await saveCallback();
  } catch (error) {
    showErrors(error.errors?.length ? error.errors : [{ detail: explain(error) }]);
  } finally {
    button.disabled = false;
  }
}

/** Sends the word from the shop, if it is another one. */
async function announce(id) {
  const shown = kept.announcement ?? {};
  const word = WORDS.reduce((texts, [field, language]) => translated(texts, language, byId(field).value.trim()), shown);
  if (WORDS.some(([, language]) => word[language] !== shown[language])) await send("PUT", `${activityPath(id)}/announcement`, word);
}

/** Shows each error at the field of its JSON pointer, and errors without a field at the top. */
function showErrors(errors) {
  for (const old of byId("sale-form").querySelectorAll(".complaint")) old.remove();
  for (const old of byId("sale-form").querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  const withoutField = [];
  errors.forEach(({ pointer, detail, field }, index) => {
    const place = field ?? (pointer && byId("sale-form").querySelector(`[data-pointer="${CSS.escape(pointer)}"]`));
    if (!place) return withoutField.push(pointer ? `${pointer} ${detail}` : detail);
    place.setAttribute("aria-invalid", "true");
    place.closest(".field")?.append(el("span", { class: "complaint", role: "alert" }, detail));
    if (index === 0) place.focus();
  });
  setText(byId("form-trouble"), withoutField.join(" · "));
}

const lines = (id) => byId(id).value.split("\n").filter((line) => line.trim());

const wholeNumber = (id) => (DIGITS.test(byId(id).value) ? Number(byId(id).value) : NaN);

/** Converts an RFC 3339 time to the value of a `datetime-local` field, which is in local time without a zone. */
function toLocalInput(text) {
  const date = new Date(text);
  return new Date(date.getTime() - date.getTimezoneOffset() * MINUTE).toISOString().slice(0, 19);
}

const toRfc3339 = (text) => new Date(text).toISOString();
