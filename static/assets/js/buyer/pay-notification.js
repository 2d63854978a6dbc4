// A notification of the browser when an order can be paid, if the buyer asked for it on this device.

import { byId, setVisible } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

const isSupported = "Notification" in window && canConstruct();

/** Chrome on Android throws: its notifications need a service worker, which these pages do not have. */
function canConstruct() {
  if (Notification.permission !== "default") return Notification.permission === "granted";
  try {
    // Without the permission, nothing is shown.
    new Notification("");
    return true;
  } catch {
    return false;
  }
}

byId("notify").addEventListener("click", async () => {
  await Notification.requestPermission();
  offer();
});

/** Offers the notification while the browser has not been asked for it, and says that it will come once it may. */
export function offer() {
  setVisible(byId("notify"), isSupported && Notification.permission === "default");
  setVisible(byId("notify-on"), isSupported && Notification.permission === "granted");
}

/** Notifies a buyer who does not see the page. */
export function notify(orderNo) {
  if (!isSupported || Notification.permission !== "granted" || !document.hidden) return;
  try {
    // A second tab with the same order replaces the notification.
    const notification = new Notification(t("order.pay_now"), { body: t("order.pending_payment_more"), tag: orderNo });
    notification.addEventListener("click", () => (window.focus(), notification.close()));
  } catch {
    // Chrome on Android, where another page of this origin got the permission.
  }
}
