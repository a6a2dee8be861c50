// The text form of augmentations: there and back, defaults, and what is refused.
#include <graft/data/augment_spec.hpp>

#include <doctest/doctest.h>

using namespace graft;

TEST_CASE("a specification survives text and back") {
    for (const char* spec : {"none",
                             "default",
                             "random_resized_crop",
                             "random_resized_crop=0.35:1",
                             "random_horizontal_flip",
                             "horizontal_flip=0.3",
                             "random_vertical_flip=1",
                             "random_rotation=15",
                             "random_rotation=-10:20.5,fill=114,interpolation=bilinear",
                             "color_jitter=0.2:0.2:0.2:0.05",
                             "color_jitter=0.4",
                             "random_grayscale",
                             "rand_augment",
                             "rand_augment=3:5:11",
                             "trivial_augment_wide",
                             "random_erasing=0.1",
                             "random_erasing=0.25:0.02:0.2:0.5:2,erasing_value=random",
                             "random_erasing,erasing_value=-1.5",
                             "mixup=0.2",
                             "cutmix",
                             "default,mixup=0.2,cutmix=1",
                             "default,none"}) {
        INFO(std::string(spec));
        const auto parsed = parse_augmentation(spec);
        REQUIRE(parsed.ok());
        const std::string canonical = text(parsed.value());
        const auto again = parse_augmentation(canonical);
        REQUIRE(again.ok());
        CHECK(text(again.value()) == canonical);
        CHECK(is_random(parsed.value()) == (canonical != "none" && canonical.compare(0, 4, "fill") != 0));
    }
    CHECK(text(augmentation()) == "none");
    CHECK(text(parse_augmentation("default").value()) == text(default_augmentation()));
    CHECK(text(parse_augmentation("default,none").value()) == "none");
    CHECK(text(parse_augmentation("horizontal_flip=0.25").value()) == "random_horizontal_flip=0.25");
}

TEST_CASE("names alone have torchvision's defaults") {
    const augmentation a = parse_augmentation("random_resized_crop,random_horizontal_flip,rand_augment,random_erasing,random_grayscale,mixup").value();
    CHECK(a.scale[0] == 0.08);
    CHECK(a.ratio[1] == 4.0 / 3.0);
    CHECK(a.horizontal_flip == 0.5);
    CHECK(a.policy.num_ops == 2);
    CHECK(a.policy.magnitude == 9);
    CHECK(a.policy.num_magnitude_bins == 31);
    CHECK(a.random_erasing == 0.5);
    CHECK(a.erasing_scale[1] == 0.33);
    CHECK(a.grayscale == 0.1);
    CHECK(a.mixup == 1);
}

TEST_CASE("every kind's example is read, changes something and is written back under its name") {
    for (const augmentation_kind& kind : augmentation_kinds()) {
        const std::string form = kind.form, name = form.substr(0, form.find_first_of("=["));
        INFO(form);
        CHECK(parse_augmentation(name).ok() == (kind.alone != nullptr));
        if (!kind.example) continue;
        const auto parsed = parse_augmentation(kind.example);
        REQUIRE(parsed.ok());
        CHECK(is_random(parsed.value()));
        CHECK(text(parsed.value()).compare(0, name.size() + 1, name + "=") == 0);
    }
    // Checkpoints hold these texts: only policies have whole numbers without exponents.
    CHECK(text(parse_augmentation("rand_augment=20:100:1000,fill=100").value()) == "rand_augment=20:100:1000,fill=1e+02");
    CHECK(text(parse_augmentation("trivial_augment_wide=20,rotation=30").value()) == "random_rotation=-3e+01:3e+01,trivial_augment_wide=20");
}

TEST_CASE("later items win") {
    const augmentation a = parse_augmentation("random_erasing=0.9,default,random_erasing=0.1,rand_augment,trivial_augment_wide=11").value();
    CHECK(a.random_erasing == 0.1);
    CHECK(a.policy.kind == auto_augment::policy::trivial_augment_wide);
    CHECK(a.policy.num_magnitude_bins == 11);
}

TEST_CASE("a wrong item is named") {
    for (const char* item : {"",
                             "crop",
                             "random_crop=2",
                             "random_resized_crop=0",
                             "random_resized_crop=0:1",
                             "random_resized_crop=0.9:0.5",
                             "random_resized_crop=0.5:1.5",
                             "random_resized_crop=0.5:1:0.75",
                             "random_resized_crop=0.5:1:2:1",
                             "horizontal_flip=1.5",
                             "horizontal_flip=-0.1",
                             "horizontal_flip=",
                             "horizontal_flip=x",
                             "horizontal_flip=0.5:0.5",
                             "horizontal_flip=nan",
                             "random_rotation=-5",
                             "random_rotation=20:10",
                             "random_rotation=1:2:3",
                             "color_jitter=-0.1",
                             "color_jitter=0:0:0:0.6",
                             "color_jitter=0:0:0:0:0",
                             "rand_augment=0",
                             "rand_augment=2:31",
                             "rand_augment=2.5",
                             "rand_augment=2:9:31:1",
                             "rand_augment=1e99",
                             "trivial_augment_wide=1",
                             "random_erasing=2",
                             "random_erasing=0.5:0.2",
                             "erasing_value=1e39",
                             "erasing_value=noise",
                             "mixup=-1",
                             "mixup=1e9",
                             "cutmix=0.1:0.2",
                             "interpolation=bicubic",
                             "fill=256",
                             "fill=-1",
                             "fill=1.5",
                             "none=1",
                             "random_resized_crop=0.1:0.2:0.3:0.4:0.5:0.6:0.7",
                             "Random_erasing=0.1",
                             " none"}) {
        INFO(std::string(item));
        const auto parsed = parse_augmentation(std::string("default,") + item);
        REQUIRE(!parsed.ok());
        CHECK(parsed.error().code() == errc::usage);
        CHECK(parsed.error().where() == (*item ? item : "empty item"));
    }
}
