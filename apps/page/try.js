// Trying: one picture, or what the camera sees, and how the model answers.
const tried = { url: "", camera: new Camera($("video")), picture: null };

function show(url, alt) {
  if (tried.url) URL.revokeObjectURL(tried.url);
  tried.url = url;
  $("picture").src = url;
  $("picture").alt = alt;
  $("picture").hidden = false;
  $("nothing").hidden = $("video").hidden = true;
}
function bar(one, first) {
  const share = `${(100 * one.probability).toFixed(1)} %`, fill = made("span", { class: "fill" });
  fill.style.width = `${100 * one.probability}%`;
  const inside = [made("span", { class: "name" }, one.label), made("span", { class: "share" }, share), made("span", { class: "track", "aria-hidden": "true" }, fill)];
  if (!tried.picture) return made("li", {}, made("div", { class: first ? "class first" : "class" }, ...inside));  // of the camera, which does not wait
  const button = made("button", { type: "button", class: first ? "class first" : "class", "aria-pressed": "false", title: "Show which places spoke for it" }, ...inside);
  button.addEventListener("click", () => explain(one, button));
  return made("li", {}, button);
}
async function explain(one, button) {
  if (busy()) return;
  const of = tried.picture, off = button.getAttribute("aria-pressed") === "true";
  for (const other of document.querySelectorAll("#answers [aria-pressed='true']")) other.setAttribute("aria-pressed", "false");
  if (off) return show(URL.createObjectURL(of.blob), "The picture that was given");
  button.setAttribute("aria-pressed", "true");
  button.setAttribute("aria-busy", "true");
  try {
    const picture = await contents(of.blob, of.name), { png } = await engine.call("explain", { picture, index: one.index }, moved(picture));
    if (of === tried.picture && button.getAttribute("aria-pressed") === "true") show(URL.createObjectURL(new Blob([png], { type: "image/png" })), `The places that spoke for ${one.label}`);
  } catch (e) {
    button.setAttribute("aria-pressed", "false");
    button.title = e.message;
    button.querySelector(".share").textContent = "no map";
  }
  button.removeAttribute("aria-busy");
}
function show_answer(answer) {
  $("latency").className = "soft";
  $("latency").textContent = `${answer.ms.toFixed(1)} ms${answer.decode_ms ? `, and ${answer.decode_ms.toFixed(1)} ms to decode the picture` : ""}`;
  $("answers").replaceChildren(...answer.top.map((one, i) => bar(one, i === 0)));
}
function show_failure(e) {
  $("latency").className = "bad";
  $("latency").textContent = e.message;
  $("answers").replaceChildren();
}
async function look(blob, name) {
  stop_looking();
  tried.picture = { blob, name };
  show(URL.createObjectURL(blob), "The picture that was given");
  await look_again();
}
async function look_again() {
  if (!tried.picture) return;
  if (busy()) {
    $("latency").textContent = "The training has the engine; the picture is looked at when it is done.";
    $("answers").replaceChildren();
    return;
  }
  try {
    const picture = await contents(tried.picture.blob, tried.picture.name);
    show_answer(await engine.call("classify", { picture, top: 5 }, moved(picture)));
  } catch (e) {
    show_failure(e);
  }
}

// One frame after the other, as fast as they are answered; none while a training has the engine.
async function watch() {
  while (tried.camera.on) {
    if (!busy() && $("video").videoWidth) {
      const canvas = frame($("video")), pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const picture = { data: pixels.data, width: pixels.width, height: pixels.height, name: "camera" };
      try {
        const answer = await engine.call("classify", { picture, top: 5 }, moved(picture));
        if (tried.camera.on) show_answer(answer);
      } catch (e) {
        show_failure(e);
        return stop_looking();
      }
    }
    await new Promise(requestAnimationFrame);
  }
}
function stop_looking() {
  tried.camera.stop();
  $("video").hidden = true;
  $("camera").textContent = "Camera";
  $("answers").setAttribute("aria-live", "polite");
}
$("camera").addEventListener("click", async () => {
  if (tried.camera.on) {
    stop_looking();
    $("nothing").hidden = false;
    return;
  }
  try {
    await tried.camera.start();
  } catch (e) {
    $("nothing").textContent = `no camera: ${e.message}`;
    $("nothing").hidden = false;
    return;
  }
  $("picture").hidden = $("nothing").hidden = true;
  $("video").hidden = false;
  $("camera").textContent = "Stop the camera";
  $("answers").setAttribute("aria-live", "off");  // ten answers a second are none to be read aloud
  tried.picture = null;
  watch();
});
$("file").addEventListener("change", e => { if (e.target.files[0]) look(e.target.files[0], e.target.files[0].name); e.target.value = ""; });
addEventListener("paste", e => { const file = [...e.clipboardData.files].find(is_picture); if (file) look(file, file.name); });
