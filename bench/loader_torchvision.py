"""torchvision's ImageFolder and DataLoader on the folder and the transforms of bench/loader.cpp: python bench/loader_torchvision.py FOLDER [WORKERS]."""
import sys, time
import torch
from torchvision import datasets, transforms as T


class whole_tree(datasets.ImageFolder):
    """Every split of the folder, as bench/loader.cpp reads it: FOLDER/{train,val}/CLASS or FOLDER/CLASS."""

    def __init__(self, folder, transform):
        import os
        parts = [os.path.join(folder, p) for p in ("train", "val") if os.path.isdir(os.path.join(folder, p))] or [folder]
        super().__init__(parts[0], transform)
        for part in parts[1:]:
            self.samples += datasets.ImageFolder(part).samples
        self.imgs = self.samples


def main(folder, workers=2, epochs=5):
    transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    data = whole_tree(folder, transform)
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    best = 0
    for epoch in range(epochs):
        began, images = time.perf_counter(), 0
        for x, _ in loader:
            images += len(x)
        rate = images / (time.perf_counter() - began)
        print(f"epoch {epoch}: {rate:.0f} images/s", flush=True)
        best = max(best, rate)
    print(f"best: {best:.0f} images/s")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
