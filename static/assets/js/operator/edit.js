// The editor of a sale in four steps: what, when, who, and the rules. What is typed stays in the tab until it is saved.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { duration } from "../shared/format.js";
import { loadDraft, removeDraft, storeDraft } from "./drafts.js";
import { showErrors, wrongs } from "./edit-errors.js";
import { fieldNode, STEPS } from "./edit-fields.js";
import { announcementOf, specOf, textsOf } from "./edit-spec.js";
import { open, setTitle } from "./frame.js";
import { PRESETS } from "./presets.js";
import { activityPath, explain, runAction, send, showNotice } from "./requests.js";
import { refundRisk } from "./sale-actions.js";
import { addSku, allTexts, fillSkus, skusOf, skuTexts, toId } from "./sku-rows.js";
import { t } from "./words.js";

const MINUTE = 60_000;

const query = new URLSearchParams(location.search);
/** The name under which the tab keeps what is typed: that of the sale, of the copy, or of a new one. */
const draftName = query.toString();
const [id, copied] = [query.get("id"), query.get("copy")];

/** The activity as it was loaded, with the version that a save replaces; what the editor shows of the loaded one. */
let [loaded, version, original] = [{}, 0, ""];

open("sales", async (main) => {
  const from = id ?? copied;
  loaded = from ? await runAction(el("button"), () => send("GET", activityPath(from))) : {};
  if (!loaded) return;
  main.append(form());
  setTitle(t(id ? "edit.title" : "new", { id }));
  if (id) version = loaded.version;
  else loaded = asNew(loaded);
  fill(textsOf(loaded), (loaded.skus ?? []).map(skuTexts));
  original = JSON.stringify(current());
  restore();
  const follow = () => go(location.hash.slice(1) in STEPS ? location.hash.slice(1) : "what");
  addEventListener("hashchange", follow);
  follow();
});

/** A new activity that is like this one, and as long. */
function asNew(spec) {
  const start = Math.ceil((Date.now() + 10 * MINUTE) / MINUTE) * MINUTE;
  const length = spec.ends_at ? Date.parse(spec.ends_at) - Date.parse(spec.starts_at) : 60 * MINUTE;
  const [startsAt, endsAt] = [start, start + length].map((time) => new Date(time).toISOString());
  return { ...spec, id: "", announcement: undefined, starts_at: startsAt, ends_at: endsAt };
}

function form() {
  const steps = Object.keys(STEPS);
  const stepButton = (name, index) => el("button", { type: "button", class: "step-tab", "data-step": name, testid: `step-${name}`, onclick: () => go(name) },
    el("span", { class: "count" }, String(index + 1)), " ", t(`step.${name}`));
  const step = (name) => el("section", { id: `step-${name}`, "aria-label": t(`step.${name}`), class: "card edit-step" },
    el("h2", {}, t(`step.${name}.title`)), el("p", { class: "quiet" }, t(`step.${name}.hint`)),
    name === "what" && !id && !copied && presets(),
    el("div", { class: "grid" }, STEPS[name].first.map(fieldNode)),
    name === "what" && items(),
    name === "when" && el("p", { id: "when-summary", class: "calm", role: "status", testid: "when-summary" }),
    el("details", {}, el("summary", {}, t("step.more")), el("div", { class: "grid" }, STEPS[name].folded.map(fieldNode))),
    name === "rules" && el("p", { class: "trouble", id: "f-refund-risk", testid: "f-refund-risk", role: "status" }));
  return el(
    "form", { id: "sale-form", testid: "sale-form", autocomplete: "off", novalidate: true, onsubmit: (event) => void save(event), oninput: typed },
    el("a", { class: "back", href: backLink() }, t("back.leave")),
    el("h1", {}, t(id ? "edit.title" : "new", { id })),
    el("div", { id: "restored", class: "calm restored", role: "status", testid: "restored", hidden: true }, el("p", {}, t("restored")),
      el("button", { type: "button", class: "button", testid: "discard", onclick: discard }, t("restored.discard"))),
    el("nav", { class: "step-tabs", "aria-label": t("steps") }, steps.map(stepButton)),
    el("p", { id: "form-trouble", class: "trouble", role: "alert", testid: "form-trouble" }),
    steps.map(step),
    el("p", { class: "actions form-actions" },
      el("button", { type: "button", class: "button", id: "next", testid: "next" }, t("next")),
      el("button", { class: "button primary", id: "save", testid: "f-save" }, t(id ? "save" : "save.draft"))),
  );
}

const backLink = () => (id ? `/admin/sale?${new URLSearchParams({ id })}` : "/admin");

const presets = () => el("div", { class: "presets", role: "group", "aria-label": t("presets") }, Object.keys(PRESETS).map((name) =>
  el("button", { type: "button", class: "preset", testid: `preset-${name}`, onclick: () => applyPreset(name) },
    el("strong", {}, t(`preset.${name}`)), el("span", { class: "quiet" }, t(`preset.${name}.hint`)))));

function applyPreset(name) {
  const { skus, ...texts } = PRESETS[name];
  const now = current();
  fill({ ...now.texts, ...texts }, now.skus.map((sku) => ({ ...sku, ...skus })));
  typed();
  showNotice(t("preset.done", { name: t(`preset.${name}`) }));
}

const items = () => el("fieldset", {}, el("legend", {}, t("f.skus")), el("div", { id: "f-skus", class: "stack" }),
  el("button", { type: "button", class: "button", id: "f-add-sku", testid: "f-add-sku", onclick: () => addSku().focus() }, t("f.sku.add")));

/** Shows a step, and where it leads. */
function go(name) {
  const names = Object.keys(STEPS);
  for (const step of names) setVisible(byId(`step-${step}`), step === name);
  for (const tab of document.querySelectorAll(".step-tab")) tab.setAttribute("aria-current", tab.dataset.step === name ? "step" : "false");
  const following = names[names.indexOf(name) + 1];
  setVisible(byId("next"), Boolean(following));
  byId("next").onclick = () => (go(following), byId(`step-${following}`).querySelector("input, select").focus());
  history.replaceState(null, "", `${location.pathname}${location.search}#${name}`);
}

/** The fields of the form that are not those of a SKU. */
const inputs = () => [...byId("sale-form").querySelectorAll("[data-field]")];

function fill(texts, skus) {
  for (const input of inputs()) {
    const text = texts[input.dataset.field];
    if (input.type === "checkbox") input.checked = text;
    else input.value = text;
    input.dispatchEvent(new Event("filled"));
  }
  byId("f-id").readOnly = version > 0;
  fillSkus(skus);
  follow();
}

const current = () => ({
  texts: Object.fromEntries(inputs().map((input) => [input.dataset.field, input.type === "checkbox" ? input.checked : input.value])), skus: allTexts(),
});

function typed(event) {
  if (event?.target.id === "f-id") byId("f-id").dataset.typed = "";
  follow();
  storeDraft(draftName, { version, ...current() });
}

/** What follows from other fields: the id of a new sale from its title, times in words, the limits, the risk of refunds. */
function follow() {
  const { texts, skus } = current();
  if (!version && !("typed" in byId("f-id").dataset)) byId("f-id").value = toId(texts.title);
  for (const node of document.querySelectorAll("[data-shown-with]")) setVisible(node, ["set", "waitlist"].includes(texts[node.dataset.shownWith]));
  const spec = specOf(texts, skusOf(skus), loaded);
  setText(byId("f-refund-risk"), refundRisk(spec) ? t("check.refund_risk") : "");
  const [start, end] = [Date.parse(spec.starts_at), Date.parse(spec.ends_at)];
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone.replaceAll("_", " ");
  const inWords = end > start && t(start > Date.now() ? "when.future" : "when.past", {
    time: duration(Math.max(60, Math.round(Math.abs(start - Date.now()) / MINUTE) * 60)), length: duration((end - start) / 1_000),
  });
  setText(byId("when-summary"), [inWords, t("when.zone", { zone })].filter(Boolean).join(" "));
}

/** Shows what was typed into this tab and not saved, if the sale is still the one that it was typed for. */
function restore() {
  const draft = loadDraft(draftName);
  if (!draft || draft.version !== version || JSON.stringify({ texts: draft.texts, skus: draft.skus }) === original) return;
  byId("f-id").dataset.typed = "";
  fill(draft.texts, draft.skus);
  setVisible(byId("restored"), true);
}

function discard() {
  removeDraft(draftName);
  location.reload();
}

async function save(event) {
  event.preventDefault();
  const button = byId("save");
  const { texts, skus } = current();
  const spec = specOf(texts, skusOf(skus), loaded);
  const name = texts.id.trim();
  const found = wrongs(name, spec);
  if (found.length) return showErrors(byId("sale-form"), found, reveal);
  button.disabled = true;
  try {
    ({ version } = await send("PUT", activityPath(name), spec, { version }));
    const [word, isNew] = announcementOf(texts, loaded.announcement);
    if (isNew) await send("PUT", activityPath(name, "/announcement"), word);
    removeDraft(draftName);
    location.assign(`/admin/sale?${new URLSearchParams({ id: name })}`);
  } catch (error) {
    showErrors(byId("sale-form"), error.errors?.length ? error.errors : [{ detail: explain(error) }], reveal);
    button.disabled = false;
  }
}

/** Opens the step of a field, and focuses it. */
function reveal(field) {
  go(field.closest(".edit-step").id.replace("step-", ""));
  field.focus();
}

