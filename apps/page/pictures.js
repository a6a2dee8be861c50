// Pictures: files that the engine decodes itself, so that its answers are the program's; what it cannot read, and the camera, as pixels from a canvas.
const starts = [[0x89, 0x50, 0x4e, 0x47], [0xff, 0xd8, 0xff], [0x42, 0x4d], [0x50, 0x32], [0x50, 0x33], [0x50, 0x35], [0x50, 0x36]];  // PNG, JPEG, BMP, PNM
async function contents(blob, name) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  if (bytes.length < 4 || starts.some(s => s.every((b, i) => bytes[i] === b))) return { bytes, name };
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, { imageOrientation: "from-image", colorSpaceConversion: "none", premultiplyAlpha: "none" });
  } catch {
    return { bytes, name };  // the engine says what it is
  }
  const pixels = drawn(bitmap, bitmap.width, bitmap.height).getContext("2d").getImageData(0, 0, bitmap.width, bitmap.height);
  return { data: pixels.data, width: pixels.width, height: pixels.height, name };
}
const moved = picture => [(picture.data ?? picture.bytes).buffer];

function drawn(from, width, height) {
  const canvas = made("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(from, 0, 0, width, height);
  return canvas;
}
// A frame of the camera, no larger than networks look at: the same for recording and for trying.
function frame(video) {
  const scale = Math.min(1, 320 / Math.min(video.videoWidth, video.videoHeight));
  return drawn(video, Math.max(1, Math.round(video.videoWidth * scale)), Math.max(1, Math.round(video.videoHeight * scale)));
}

class Camera {
  constructor(video) { this.video = video; }
  get on() { return Boolean(this.video.srcObject); }
  async start() {
    this.video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    await this.video.play();
  }
  stop() {
    for (const track of this.video.srcObject?.getTracks() ?? []) track.stop();
    this.video.srcObject = null;
  }
}

const is_picture = file => file.type.startsWith("image/") || /\.(p[bgpn]m|bmp|heic|avif)$/i.test(file.name);
// The files of a drop, each with its path; folders are gone through.
async function dropped(transfer) {
  const found = [];
  const walk = async (entry, path) => {
    if (entry.isFile) {
      found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path: path + entry.name });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const one of some) await walk(one, `${path}${entry.name}/`);
    }
  };
  const entries = [...transfer.items].map(item => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) for (const file of [...transfer.files]) found.push({ file, path: file.name });
  for (const entry of entries) await walk(entry, "");
  return found.filter(f => is_picture(f.file));
}
const by_path = (a, b) => a.path < b.path ? -1 : a.path > b.path ? 1 : 0;
