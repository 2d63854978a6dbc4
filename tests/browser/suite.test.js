// Runs all stories in one process, one after another: one of them sheds load, which affects the whole app.

import "./stories/buy.js";
import "./stories/start.js";
import "./stories/click.js";
import "./stories/check.js";
import "./stories/refusals.js";
import "./stories/operator.js";
import "./stories/pages.js";
