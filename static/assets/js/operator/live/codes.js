// The presale codes of a sale: made here, uploaded from a file, or saved as one.

import { el } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { ask } from "../dialog.js";
import { button } from "../parts.js";
import { activityPath, readText, runAction, send } from "../requests.js";
import { t } from "../words.js";

/** A request has at most 16 KiB. */
const LINES = 300;
const FOR_CODES = "/codes";
/** A code, and for how many users it is. */
const LINE = /^\s*"?(?:[ -]*[A-Za-z0-9]){6,40}[ -]*"?\s*(?:,\s*"?[0-9]+"?\s*(?:,.*)?)?$/;

/** What an operator does with the codes of the activity `id`. */
export const codeActions = (id) => {
  const file = el("input", { type: "file", accept: ".csv,text/csv", hidden: true, "aria-label": t("codes.upload"), testid: "codes-file" });
  const upload = button("codes-upload", t("codes.upload"), () => file.click());
  file.addEventListener("change", () => void runAction(upload, () => uploadFile(id, file), added));
  return [
    el("p", { class: "quiet" }, t("codes.what")),
    el("div", { class: "actions" },
      button("codes-make", t("codes.make"), ({ target }) => void make(target, id)), upload, file,
      button("codes-save", t("codes.save"), ({ target }) => void runAction(target, () => save(id)))),
  ];
};

const added = ({ added: number, codes }) => t("codes.added", { number: count(number), codes: count(codes) });

async function make(target, id) {
  const answer = await ask({
    title: t("codes.ask"), text: t("codes.follows"), yes: t("codes.yes"),
    fields: [
      { name: "count", label: t("codes.count"), type: "number", min: 1, max: 1_000, value: 100, required: true },
      { name: "users", label: t("codes.users"), type: "number", min: 1, max: 1_000_000, value: 1, required: true },
    ],
  });
  if (!answer) return;
  const body = { count: Number(answer.count), max_users: Number(answer.users) };
  await runAction(target, () => send("POST", activityPath(id, FOR_CODES), body), added);
}

/** Sends a file in parts, if each line is one: codes that are there already stay as they are. */
async function uploadFile(id, file) {
  const lines = (await file.files[0].text()).split(/\r?\n/).filter((line) => line.trim());
  file.value = "";
  const wrong = lines.findIndex((line, index) => !LINE.test(line) && !(index === 0 && line.startsWith("code")));
  if (wrong >= 0) throw new Error(t("codes.line", { number: count(wrong + 1), line: lines[wrong].slice(0, 60) }));
  const sum = { added: 0, codes: 0 };
  for (let from = 0; from === 0 || from < lines.length; from += LINES) {
    const part = new Blob([lines.slice(from, from + LINES).join("\n")], { type: "text/csv" });
    const answer = await send("PUT", activityPath(id, FOR_CODES), part);
    [sum.added, sum.codes] = [sum.added + answer.added, answer.codes];
  }
  return sum;
}

async function save(id) {
  const url = URL.createObjectURL(new Blob([await readText(activityPath(id, FOR_CODES))], { type: "text/csv" }));
  el("a", { href: url, download: `${id}-codes.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
