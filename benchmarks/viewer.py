"""Opens pages of `coembed view` in a headless Chromium and compares what they say with the map.

    python benchmarks/viewer.py SOURCE TARGET MAP PAGE [--picture FILE.png]

Moves the pointer over points of both shapes, reads the row under it and its partner, and checks
the partner against the map file; then measures the time of a frame. The network is cut off. Needs
Chromium, its driver, and `pip install selenium`.
"""

import argparse
import json
import shutil
import time
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By

from coembed import files, formats

ASKED = 60  # places that are pointed at
OPTIONS = (
    "--headless=new", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader", "--window-size=1400,900", "--hide-scrollbars",
)  # fmt: skip


def opened(page: Path) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # named, so that Selenium does not look for them on the network
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    driver.get(page.resolve().as_uri())
    for _ in range(600):
        state = driver.find_element(By.TAG_NAME, "body").get_attribute("data-state")
        if state != "loading":
            break
        time.sleep(0.1)
    return driver


def pointed(driver: webdriver.Chrome, x: float, y: float) -> dict[str, str]:
    """What the page says of the place."""
    builder = ActionBuilder(driver, mouse=PointerInput("mouse", "mouse"))
    builder.pointer_action.move_to_location(round(x), round(y))
    builder.perform()
    script = (
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => "
        "done({...document.getElementById('picked').dataset})))"
    )
    return driver.execute_async_script(script)


def compare(driver, shapes, p2p) -> dict[str, float]:
    """Places where a row was found, those with the right partner, and how far off the row is."""
    rng = np.random.default_rng(0)
    answers, right, near = 0, 0, []
    for side, shape in enumerate(shapes):
        for row in rng.integers(len(shape.points), size=ASKED // 2).tolist():
            if driver.execute_script(f"return coembed.sides[{side}].shownRow({row})") < 0:
                continue
            place = driver.execute_script(f"return coembed.place({side}, {row})")
            said = pointed(driver, place["x"], place["y"])
            if "row" not in said:
                continue
            answers += 1
            got = int(said["row"])
            there = driver.execute_script(f"return coembed.place({side}, {got})")
            near.append(np.hypot(there["x"] - place["x"], there["y"] - place["y"]))
            partners = {int(word) for word in said["partners"].split()}
            if side == 0:
                true = {int(p2p[got])} - {-1}
                right += partners == true
            else:
                true = set(np.flatnonzero(p2p == got).tolist())
                thinned = driver.execute_script("return coembed.hits !== null")
                right += partners <= true if thinned else partners == true
    return {"pointed": answers, "right": right, "worst_px": round(max(near), 2)}


def frame(driver: webdriver.Chrome, n: int, share: str = "undefined") -> float:
    return round(1000 * driver.execute_script(f"return coembed.time({n}, {share})"), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "target", "map", "page"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    shapes = [formats.read(path) for path in (given.source, given.target)]
    p2p = files.read_matches(given.map, n_target=len(shapes[1].points)).p2p
    started = time.perf_counter()
    driver = opened(given.page)
    facts = {"page": given.page.name, "mb": round(given.page.stat().st_size / 1e6, 2)}
    facts["state"] = driver.find_element(By.TAG_NAME, "body").get_attribute("data-state")
    if facts["state"] != "ready":
        raise SystemExit(str(driver.get_log("browser")))
    facts["seconds_to_open"] = round(time.perf_counter() - started, 2)
    facts |= compare(driver, shapes, p2p)
    if given.picture:
        ActionChains(driver).send_keys("l").perform()
        time.sleep(0.3)
        driver.save_screenshot(str(given.picture))
    facts["ms_a_frame"] = frame(driver, 10, "1")
    frame(driver, 20)  # until the share of points that is drawn in motion has settled
    facts["ms_in_motion"] = frame(driver, 20)
    facts["share_in_motion"] = driver.execute_script("return coembed.share")
    errors = [one["message"] for one in driver.get_log("browser") if one["level"] == "SEVERE"]
    facts["console_errors"] = errors
    driver.quit()
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
