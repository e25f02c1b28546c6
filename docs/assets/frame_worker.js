// Search from the file system. Browsers start no worker there, so the worker's script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      const url = new URL(address, location.href).href;
      this.waiting = [];
      frame.hidden = true;
      frame.worker = this;
      frame.srcdoc =
        "<script>self.postMessage = data => frameElement.worker.hear(data);" +
        "self.importScripts = (...urls) => urls.forEach(url => document.write('<script src=\"' + url + '\"><\\/script>'));" +
        `</script><script src="${url}"></script>`;
      frame.addEventListener("load", () => {
        this.frame = frame;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
      const add = () => document.body.appendChild(frame);
      document.body ? add() : document.addEventListener("DOMContentLoaded", add);
    }
    postMessage(data) {
      if (!this.frame) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    hear(data) {
      this.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame?.remove();
    }
  };
}
