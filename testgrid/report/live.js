// Replaces what has changed in a page of the report while tests run. What a person has opened or chosen stays.
'use strict';
let shown = null;

async function refresh(state) {
  if (shown === null) {
    shown = state; // the page is as new as this
    return;
  }
  shown = state;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const open = new Set(Array.from(document.querySelectorAll('details[open] > summary'), s => s.dataset.key));
  for (const part of document.querySelectorAll('[data-live]')) {
    const now = fresh.getElementById(part.id);
    if (now && now.innerHTML !== part.innerHTML) part.replaceChildren(...now.childNodes);
  }
  for (const summary of document.querySelectorAll('details > summary')) {
    if (open.has(summary.dataset.key)) summary.parentElement.open = true;
  }
}

let last = Promise.resolve();
new EventSource('/events').onmessage = event => { last = last.then(() => refresh(event.data)).catch(() => {}); };
