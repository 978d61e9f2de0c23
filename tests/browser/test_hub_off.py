"""What the page says of the hub at a gateway without one."""

from playwright.sync_api import Page, expect


def test_without_a_hub_the_page_says_what_it_is_and_how_to_begin(page: Page) -> None:
    page.goto("/#/hub")
    note = page.get_by_role("region", name="This gateway has no hub")
    expect(note).to_contain_text("trunkline serve --hub")
    tabs = page.get_by_role("navigation", name="Hub").get_by_role("link")
    expect(tabs).to_have_text(["Overview", "Sessions", "Nodes"])
    for name in ("Sessions", "Nodes"):
        tabs.filter(has_text=name).click()
        page.get_by_role("heading", name=name, exact=True).wait_for()
    page.goto("/#/hub/tokens")
    page.get_by_role("heading", name="There is no such page here").wait_for()
