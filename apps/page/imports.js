// What the engine asks of the worker, so that the linker knows these names and no others; worker.js has what they do.
mergeInto(LibraryManager.library, { page_tell() {}, page_offer() {} });
