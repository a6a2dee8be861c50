// Collecting: a box for each class, filled by files, folders, drops and the camera.
const boxes = [];  // {name, pictures: [{blob, file}], element, ...}
const recorder = new Camera($("recorder-video"));

function pictures_in_all() { return boxes.reduce((sum, box) => sum + box.pictures.length, 0); }
function collection_changed() {
  for (const box of boxes) box.count.textContent = box.pictures.length === 1 ? "1 picture" : `${box.pictures.length} pictures`;
  const ready = boxes.length >= 2 && boxes.every(box => box.pictures.length >= 2);
  $("train").disabled = !ready || busy() || !engine_ready;
  if (busy() || !$("result").hidden) return;
  $("status").textContent = ready ? `${boxes.length} classes, ${pictures_in_all()} pictures.` : "Two classes with two pictures each are the least.";
}
function class_name(box) { return box.input.value.trim(); }

function add_picture(box, blob, file) {
  const picture = { blob, file, url: URL.createObjectURL(blob) };
  const button = made("button", { type: "button", "aria-label": `Remove ${file}` }, made("img", { src: picture.url, alt: "" }));
  button.addEventListener("click", () => {
    const at = box.pictures.indexOf(picture), next = button.nextElementSibling ?? button.previousElementSibling ?? box.input;
    box.pictures.splice(at, 1);
    URL.revokeObjectURL(picture.url);
    button.remove();
    next.focus();
    collection_changed();
  });
  box.pictures.push(picture);
  box.thumbs.append(button);
}
function add_files(box, files) {
  for (const file of files) add_picture(box, file, file.name);
  collection_changed();
}

// Frames as long as it is held, a dozen a second, without loss. One that was taken while it was held comes even if it was let go of by then.
async function record(box, button) {
  if (!recorder.on) return;
  box.held = true;
  if (box.recording) return;  // the loop below goes on
  box.recording = true;
  button.classList.add("recording");
  while (box.held && recorder.on) {
    const blob = await new Promise(resolve => frame(recorder.video).toBlob(resolve, "image/png"));
    add_picture(box, blob, `frame-${String(++box.frames).padStart(4, "0")}.png`);
    collection_changed();
    box.thumbs.scrollTop = box.thumbs.scrollHeight;
    await new Promise(resolve => setTimeout(resolve, 80));
  }
  button.classList.remove("recording");
  box.recording = false;
}

function add_box(name) {
  const box = { pictures: [], frames: 0, held: false, recording: false };
  box.input = made("input", { type: "text", value: name, autocomplete: "off", maxlength: "100" });
  box.count = made("p", { class: "soft" });
  box.thumbs = made("div", { class: "thumbs" });
  const file = made("input", { class: "hidden-input", type: "file", accept: "image/*,.pgm,.ppm,.pnm", multiple: "" });
  box.record = made("button", { type: "button" }, "Record");
  box.record.disabled = !recorder.on;
  box.record.className = "record";
  const remove = made("button", { type: "button", "aria-label": "Remove the class" }, "Remove");
  box.element = made("div", { class: "card", role: "group" },
    made("label", { class: "field" }, made("span", {}, "Name of the class"), box.input), box.count, box.thumbs,
    made("div", { class: "row start" }, made("label", { class: "button" }, "Add pictures", file), box.record, remove));
  const named = () => box.element.setAttribute("aria-label", `Class ${class_name(box)}`);
  named();
  box.input.addEventListener("input", named);
  file.addEventListener("change", () => { add_files(box, file.files); file.value = ""; });
  remove.addEventListener("click", () => {
    for (const picture of box.pictures) URL.revokeObjectURL(picture.url);
    boxes.splice(boxes.indexOf(box), 1);
    box.element.remove();
    $("add-class").focus();
    collection_changed();
  });
  box.record.addEventListener("pointerdown", e => { box.record.setPointerCapture(e.pointerId); record(box, box.record); });
  for (const over of ["pointerup", "pointercancel", "blur"]) box.record.addEventListener(over, () => { box.held = false; });
  box.record.addEventListener("contextmenu", e => e.preventDefault());  // what a long touch means elsewhere
  box.record.addEventListener("keydown", e => { if (e.key === " " || e.key === "Enter") { e.preventDefault(); record(box, box.record); } });
  box.record.addEventListener("keyup", () => { box.held = false; });
  boxes.push(box);
  $("boxes").append(box.element);
  collection_changed();
  return box;
}

// A folder of classes: what lies in a subfolder, or below it, is of the class that the subfolder is named after. Of a dataset with parts, train is taken.
const part_names = ["train", "training", "val", "valid", "validation", "test"];
function add_folder(found) {
  let pictures = found.filter(f => is_picture(f.file)).sort(by_path).map(f => ({ file: f.file, parts: f.path.split("/") }));
  pictures = pictures.filter(p => p.parts.length > 1 && !p.parts.some(part => part.startsWith(".")));
  let depth = pictures.every(p => p.parts.length > 2) ? 1 : 0, told = "";
  if (pictures.length && pictures.every(p => p.parts.length > depth + 2 && part_names.includes(p.parts[depth]))) {
    pictures = pictures.filter(p => p.parts[depth].startsWith("train"));
    told = "Only the part to train on is taken; the page holds out pictures of its own.";
    ++depth;
  }
  const by_class = new Map();
  for (const { file, parts } of pictures) by_class.set(parts[depth], [...by_class.get(parts[depth]) ?? [], file]);
  $("collect-error").textContent = by_class.size ? told : "There are no pictures in folders there: a folder of classes has a folder with pictures for each.";
  if (by_class.size) for (const box of boxes.filter(b => !b.pictures.length)) { boxes.splice(boxes.indexOf(box), 1); box.element.remove(); }
  for (const [name, files] of by_class) add_files(boxes.find(b => class_name(b) === name) ?? add_box(name), files);
}
$("folder").addEventListener("change", e => {
  add_folder([...e.target.files].map(file => ({ file, path: file.webkitRelativePath })));
  e.target.value = "";
});
$("add-class").addEventListener("click", () => { const box = add_box(`class ${boxes.length + 1}`); box.input.focus(); box.input.select(); });
$("record-camera").addEventListener("click", async () => {
  if (recorder.on) recorder.stop();
  else {
    try {
      await recorder.start();
      $("collect-error").textContent = "";
    } catch (e) {
      $("collect-error").textContent = `no camera: ${e.message}`;
    }
  }
  $("recorder").hidden = !recorder.on;
  $("record-camera").textContent = recorder.on ? "Stop the camera" : "Camera for recording";
  for (const box of boxes) box.record.disabled = !recorder.on;
});

// A drop goes to the box it falls on; folders, and what falls beside the boxes below Teach, are classes; the rest is tried.
const box_at = target => boxes.find(box => box.element.contains(target));
const marked = target => box_at(target)?.element ?? ($("teach").contains(target) ? $("boxes") : $("drop"));
for (const name of ["dragenter", "dragover", "dragleave", "drop"])
  addEventListener(name, e => {
    e.preventDefault();
    for (const element of document.querySelectorAll(".over")) element.classList.remove("over");
    if (name.startsWith("drage") || name === "dragover") marked(e.target).classList.add("over");
  });
addEventListener("drop", async e => {
  const model = [...e.dataTransfer.files].find(f => f.name.endsWith(".onnx"));
  if (model && !busy()) return open_file(model);
  const box = box_at(e.target), teaching = $("teach").contains(e.target), found = await dropped(e.dataTransfer);
  if (box) return add_files(box, found.sort(by_path).map(f => f.file));
  if (teaching) return add_folder(found);
  if (found[0]) look(found[0].file, found[0].file.name);
});
