// SPDX-License-Identifier: Apache-2.0

//! The screen on a terminal: it is drawn, keys and the next moment are waited for.

use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::Failed;
use super::drawing::draw;
use super::screen::Screen;
use super::snapshot::Snapshot;

/// Shows a screen until the user has seen enough. `look` says what there is now, which is asked
/// once in each interval if the screen is live.
pub fn show(
    mut screen: Screen,
    interval: Duration,
    is_live: bool,
    look: &mut dyn FnMut() -> Result<Snapshot, Failed>,
) -> Result<(), Failed> {
    let mut terminal = ratatui::try_init()?;
    let shown = show_on(&mut terminal, &mut screen, interval, is_live, look);
    ratatui::restore();
    shown
}

fn show_on(
    terminal: &mut DefaultTerminal,
    screen: &mut Screen,
    interval: Duration,
    is_live: bool,
    look: &mut dyn FnMut() -> Result<Snapshot, Failed>,
) -> Result<(), Failed> {
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| draw(screen, frame))?;
        if event::poll(next.saturating_duration_since(Instant::now()))?
            && let Event::Key(key) = event::read()?
            && !screen.take(key)
        {
            return Ok(());
        }
        if Instant::now() >= next {
            next = Instant::now() + interval;
            if is_live && !screen.paused {
                screen.advance(look()?);
            }
        }
    }
}
