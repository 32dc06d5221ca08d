// Sends a bundle in chunks, and resumes where the console has its end.
"use strict";
const upload = document.querySelector("[data-upload]");

// Final is an answer that a retry would not change.
class Final extends Error {}

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
const digest = async (blob) => hex(await crypto.subtle.digest("SHA-256", await blob.arrayBuffer()));
const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

// send sends a request, and returns the document of its answer.
async function send(method, path, headers, body) {
  const answer = await fetch(path, { method, body, headers: { "Sealift-Form": upload.elements.form.value, ...headers }, redirect: "error" });
  if (answer.ok) return answer.json();
  const text = (await answer.text()).trim();
  const passing = [408, 409, 422, 423, 429].includes(answer.status) || (answer.status >= 500 && answer.status !== 507);
  throw method !== "POST" && passing ? new Error(text) : new Final(text);
}

// insist repeats what fails for a moment: a network that is gone, a console that restarts.
async function insist(say, work) {
  for (let wait = 1000; ; wait = Math.min(2 * wait, 30000)) {
    try {
      return await work();
    } catch (why) {
      if (why instanceof Final) throw why;
      say(`Waiting: ${why.message}`);
      await pause(wait);
    }
  }
}

// begin creates the upload, or finds the one to resume. One of another file with the same name is cancelled.
async function begin(file) {
  const create = () => send("POST", "/uploads", { "Upload-Name": file.name, "Upload-Length": String(file.size) });
  const state = await create();
  const { size } = state.tail;
  if (size === 0 || await digest(file.slice(state.offset - size, state.offset)) === state.tail.sha256) return state;
  await fetch(`/uploads/${state.id}/cancel`, { method: "POST", headers: { "Sealift-Form": upload.elements.form.value } });
  return create();
}

async function run(file, say, bar) {
  let state = await begin(file);
  const path = `/uploads/${state.id}`;
  const show = () => {
    bar.value = state.offset / state.length;
    say(`${state.name}: ${Math.floor(100 * bar.value)} %`);
  };
  while (state.state === "receiving") {
    show();
    const chunk = file.slice(state.offset, state.offset + state.chunk);
    try {
      state = await send("PATCH", path, { "Upload-Offset": String(state.offset), "Upload-SHA256": await digest(chunk) }, chunk);
    } catch (why) {
      if (why instanceof Final) throw why;
      say(`Waiting: ${why.message}`);
      await pause(1000);
      state = await insist(say, () => send("GET", path, {}));
    }
  }
  while (state.state === "checking") {
    show();
    say(`${state.name} has arrived. Its digests and signature are being checked.`);
    await pause(1000);
    state = await insist(say, () => send("GET", path, {}));
  }
  if (state.state !== "ready") throw new Final(`Refused: ${state.reason}`);
}

if (upload) {
  const out = upload.querySelector("output");
  const bar = upload.querySelector("progress");
  const button = upload.querySelector("button");
  upload.hidden = false;
  upload.addEventListener("submit", async (event) => {
    event.preventDefault();
    const say = (text) => { out.textContent = text; };
    button.disabled = true;
    bar.hidden = false;
    try {
      await run(upload.elements.file.files[0], say, bar);
      location.reload();
    } catch (why) {
      say(why.message);
    }
    button.disabled = false;
  });
}
