// Runs the site's search in a hidden frame where the pages are opened from the disk: browsers refuse workers there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = (this.inside = frame.contentWindow);
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const load = (url) =>
        new Promise((loaded, failed) => {
          const element = inside.document.createElement("script");
          element.src = new URL(url, document.baseURI).href;
          element.onload = loaded;
          element.onerror = failed;
          inside.document.body.append(element);
        });
      inside.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => load(url)), Promise.resolve());
      this.loaded = load(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
