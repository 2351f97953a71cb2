// The page's part: it starts a worker that has Python, asks it, and shows what it says.
"use strict";

(() => {
  const root = document.getElementById("playground");
  if (root === null) return;
  const mostSeconds = Number(root.dataset.seconds);
  const at = (name) => document.getElementById(name);
  const script = document.currentScript ? document.currentScript.src : document.baseURI;
  const near = (name) => new URL(name, script).href;

  const { program: programs, "cute-opt": texts } = JSON.parse(at("playground-examples").textContent);

  let worker = null;
  let number = 0;
  let waiting = null;

  function tell(text) {
    at("state").textContent = text;
  }

  function enable(is) {
    for (const name of ["run-program", "run-cute-opt"]) at(name).disabled = !is;
  }

  function ask(message, seconds) {
    return new Promise((resolve, reject) => {
      const mine = ++number;
      const clock = setTimeout(() => {
        worker.terminate();
        worker = null;
        reject(new Error(`stopped: it ran for more than ${seconds} seconds; load Python again`));
      }, 1000 * seconds);
      waiting = { mine, resolve, reject, clock };
      worker.postMessage({ number: mine, ...message });
    });
  }

  function answered(event) {
    if (waiting === null || event.data.number !== waiting.mine) return;
    const { resolve, reject, clock } = waiting;
    clearTimeout(clock);
    waiting = null;
    if (event.data.error === undefined) resolve(event.data.result);
    else reject(new Error(event.data.error));
  }

  async function load() {
    at("load").disabled = true;
    tell("loading, once for this page ...");
    try {
      worker = new Worker(near("playground-worker.js"), { type: "module" });
      worker.onmessage = answered;
      worker.onerror = (event) => {
        if (waiting !== null) answered({ data: { number: waiting.mine, error: event.message || "no worker" } });
      };
      const version = await ask(
        { load: new URL(root.dataset.pyodide, document.baseURI).href, archive: near(root.dataset.archive) },
        120,
      );
      tell(`Python ${version} is there`);
      enable(true);
    } catch (error) {
      worker = null;
      at("load").disabled = false;
      tell(`could not be loaded: ${error.message}`);
    }
  }

  async function run(kind, text, words, told, picture) {
    enable(false);
    at(told).hidden = false;
    at(told).textContent = "...";
    if (picture) at(picture).replaceChildren();
    try {
      const found = JSON.parse(await ask({ kind, text, words }, mostSeconds));
      at(told).textContent = found.text + (found.error ? `error: ${found.error}` : "");
      // The picture is text that our own code drew; as an image it runs no script.
      if (picture && found.svg) {
        const image = document.createElement("img");
        image.alt = "picture of the last line's value";
        image.src = URL.createObjectURL(new Blob([found.svg], { type: "image/svg+xml" }));
        at(picture).replaceChildren(image);
      }
    } catch (error) {
      at(told).textContent = error.message;
    }
    if (worker === null) {
      at("load").disabled = false;
      tell("Python was stopped");
    } else {
      enable(true);
    }
  }

  function examples(select, named, show) {
    for (const name of Object.keys(named)) at(select).add(new Option(name, name));
    at(select).onchange = () => show(named[at(select).value]);
    show(named[at(select).value]);
  }

  examples("program-example", programs, (text) => (at("program").value = text));
  examples("cute-opt-example", texts, ([text, words]) => {
    at("ir").value = text;
    at("words").value = words;
  });
  at("load").onclick = load;
  at("run-program").onclick = () =>
    run("program", at("program").value, "", "program-text", "program-picture");
  at("run-cute-opt").onclick = () =>
    run("cute-opt", at("ir").value, at("words").value, "cute-opt-text", "");
})();
