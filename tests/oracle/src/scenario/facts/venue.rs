//! The venue's own events in the words of the scenario language.

use protocol::{Event, Side};

use super::Facts;
use crate::scenario::world::World;

/// What an event of the venue says.
pub(super) fn facts(world: &World, event: &Event) -> Facts {
    let venue = |kind| Facts::new("venue", kind);
    match event {
        Event::Added(e) => {
            venue("added").amount(e.quantity, Some(e.price)).word(e.side).option("order", e.order_id)
        }
        Event::Reduced(e) => venue("reduced")
            .amount(e.quantity, Some(e.price))
            .word(e.side)
            .word(if e.gone { "gone" } else { "stays" })
            .option("order", e.order_id),
        Event::Trade(e) => venue("trade")
            .amount(e.quantity, Some(e.price))
            .word(e.taker_side.map_or("auction", Side::name))
            .option("maker", e.maker_order_id)
            .option("taker", e.taker_order_id)
            .option("trade", e.trade_id),
        Event::PhaseChanged(instrument, phase) => {
            venue("phase").word(world.symbol_of(*instrument)).word(phase)
        }
        Event::InstrumentDefined(e) => venue("defined").word(e.symbol),
        Event::UserDefined(e) => venue("defined").word(e.name),
        Event::LoggedIn(e) => Facts::new(world.name_of(e.session), "logged-in")
            .option("day", e.trading_day)
            .option("last", e.last_report)
            .option("highest", e.highest_request_id)
            .option("connection", e.connection),
        Event::LoginRefused(e) => Facts::new(world.name_of(e.session), "login-refused").word(e.reason),
        Event::ConnectionEnded(session, connection, reason) => {
            Facts::new(world.name_of(*session), "ended").word(reason).option("connection", connection)
        }
        Event::DayStarted(day) => venue("day").word(day),
        Event::ParticipantSet(session, participant, _) => {
            venue("participant").word(world.name_of(*session)).word(participant)
        }
        Event::Configured(e) => venue("configured").word(format!("{:?}", e.kind)).option("id", e.id),
        Event::Indicative(e) => venue("indicative")
            .word(world.symbol_of(e.instrument))
            .amount(e.quantity, e.price)
            .option("surplus", e.surplus)
            .maybe("side", e.surplus_side),
        Event::MarginCall(e) => venue("margin-call")
            .word(e.currency)
            .option("account", e.account)
            .option("equity", e.equity)
            .option("maintenance", e.maintenance),
        Event::Skipped(_) => venue("skipped"),
        _ => venue("checkpoint"),
    }
}
