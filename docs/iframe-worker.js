/* Browsers start no worker for a page that is read from disk. There the script of a worker, that of
 * the search, runs in a frame of the page instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame;
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...names) =>
        names.reduce((before, name) => before.then(() => load(inside, name)), Promise.resolve());
      this.ready = load(inside, address);
    }
    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
  function load(inside, address) {
    return new Promise((done, failed) => {
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href);
      script.onload = done;
      script.onerror = failed;
      inside.document.body.append(script);
    });
  }
}
