"""What is not kept for good goes by itself, a little at a time."""

from pathlib import Path

from .conftest import START, Engine, template, thing

DAY = 86_400.0


def test_the_newest_events_are_kept(plugins: Path, place: Path) -> None:
    engine = Engine(place, max_events_per_stack=5)
    stack, other = engine.create(template(a=thing(), b=thing())), engine.create(template(a=thing()), name="other")
    told = engine.told(stack)
    engine.clock.pass_(60)
    engine.wait_for(lambda: len(engine.events(stack)) == 5)
    assert [f"{e.resource_name} {e.verb}_{e.status}" for e in engine.events(stack)] == told[-5:]
    assert len(engine.events(other)) == 4
    engine.close()


def test_old_events_and_stacks_deleted_long_ago_go(plugins: Path, place: Path) -> None:
    engine = Engine(place, event_days=40, deleted_stack_days=10)
    kept, gone = engine.create(template(a=thing())), engine.create(template(a=thing()), name="gone")
    engine.delete(gone)
    engine.clock.pass_(START + 9 * DAY - engine.clock.now())
    engine.delete(engine.create(template(a=thing()), name="later"))
    assert len(engine.events(gone)) == 8
    engine.clock.pass_(2 * DAY)
    engine.wait_for(lambda: engine.store.stacks.get(gone.id) is None)
    assert engine.events(gone) == []
    assert len(engine.events(kept)) == 4
    later = engine.store.stacks.by_name("demo", "later")
    assert later is None  # its name is free, as before
    engine.patch(kept)
    newest = engine.events(kept)[4:]
    engine.clock.pass_(30 * DAY)
    engine.wait_for(lambda: engine.events(kept) == newest)
    assert len(newest) == 2
    engine.close()
