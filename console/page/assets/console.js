// What pages do besides: copy commands, show times in the viewer's zone, and follow the output of an action.
"use strict";
for (const button of document.querySelectorAll("button.copy")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    const label = button.firstChild;
    label.data = "Copied";
    setTimeout(() => { label.data = "Copy"; }, 2000);
  });
}
for (const time of document.querySelectorAll("time")) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) continue;
  time.title = time.textContent;
  time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}
const progress = document.querySelector("[data-events]");
if (progress) {
  let fresh = true;
  const events = new EventSource(progress.dataset.events);
  events.addEventListener("open", () => { fresh = true; });
  events.addEventListener("message", (event) => {
    const atEnd = progress.scrollHeight - progress.scrollTop - progress.clientHeight < 20;
    if (fresh) progress.textContent = ""; // a stream begins with everything
    fresh = false;
    progress.append(JSON.parse(event.data));
    if (atEnd) progress.scrollTop = progress.scrollHeight;
  });
  events.addEventListener("end", () => { events.close(); location.reload(); });
}
