// Every story, one after the other in one browser: one of them sheds the load of the whole app.

import "./stories/buy.js";
import "./stories/start.js";
import "./stories/click.js";
import "./stories/check.js";
import "./stories/refusals.js";
import "./stories/operator.js";
import "./stories/pages.js";
