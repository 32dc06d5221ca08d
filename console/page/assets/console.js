// What pages do besides: copy commands, show times in the viewer's zone, and follow actions and upgrades.
"use strict";
function enhance(root) {
  for (const button of root.querySelectorAll("button.copy")) {
    if (!navigator.clipboard) break;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      const label = button.firstChild;
      label.data = "Copied";
      setTimeout(() => { label.data = "Copy"; }, 2000);
    });
  }
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = time.textContent;
    time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  }
}
enhance(document);

// A part of a page that changes is taken from the page as the console renders it now.
const live = document.querySelector("[data-live]");
if (live) {
  new EventSource(live.dataset.live).addEventListener("change", async () => {
    const answer = await fetch(location.href, { redirect: "error" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(live.id);
    if (!fresh) return;
    live.replaceChildren(...fresh.childNodes);
    enhance(live);
  });
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
