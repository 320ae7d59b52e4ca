//! The full state of the engine beside the oracle's: every live order in its place, instruments, accounts, kept trades.

use exchange::{
    AccountView, BalanceView, ChangeView, Exchange, InstrumentView, OrderStanding, OrderView, PositionView,
    TradeSideView, TradeView,
};
use protocol::{Limits, Liquidity, Phase, Quantity, SessionId, TradeId};

use crate::model::{Account, Instrument, Kept, KeptSide, Oracle, Order, Scheduled, Standing, Why};

/// Compares everything that both can show.
///
/// # Errors
/// The first thing that differs.
pub fn compare(exchange: &Exchange, oracle: &Oracle) -> Result<(), String> {
    compare_orders(exchange, oracle)?;
    compare_instruments(exchange, oracle)?;
    compare_accounts(exchange, oracle)?;
    compare_trades(exchange, oracle)?;
    compare_controls(exchange, oracle)
}

/// Every live order of the engine, as it lists them.
pub fn live_orders(exchange: &Exchange) -> Vec<OrderView> {
    let mut orders = Vec::new();
    exchange.for_each_order(|order| orders.push(*order));
    orders
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{what}: {ours:?}\nnot {theirs:?}")) }
}

fn lists<T: PartialEq + std::fmt::Debug>(what: &str, ours: &[T], theirs: &[T]) -> Result<(), String> {
    for (ours, theirs) in ours.iter().zip(theirs) {
        same(what, ours, theirs)?;
    }
    match (ours.get(theirs.len()), theirs.get(ours.len())) {
        (Some(more), _) => Err(format!("{what}: {more:?} must not be there")),
        (_, Some(missing)) => Err(format!("{what}: {missing:?} is missing")),
        _ => Ok(()),
    }
}

fn compare_orders(exchange: &Exchange, oracle: &Oracle) -> Result<(), String> {
    let ours = live_orders(exchange);
    let theirs: Vec<OrderView> = oracle.live().map(view_of_order).collect();
    lists("order", &ours, &theirs)?;
    let counts = exchange.counts();
    same(
        "orders counted",
        &(counts.orders as usize, exchange.open_orders()),
        &(ours.len(), ours.len() as u64),
    )?;
    same("levels counted", &(counts.levels as usize), &oracle.level_count())
}

fn view_of_order(order: &Order) -> OrderView {
    let standing = match order.standing {
        Standing::Resting(place) if place.hidden => OrderStanding::Hidden,
        Standing::Resting(_) | Standing::Entering => OrderStanding::Displayed,
        Standing::Waiting(Why::Stop) => OrderStanding::WaitsForTrigger,
        Standing::Waiting(Why::Close) => OrderStanding::WaitsForClose,
        Standing::Waiting(Why::Parent) => OrderStanding::WaitsForParent,
        Standing::Waiting(Why::Peg) => OrderStanding::WaitsForPeg,
    };
    let is_displayed = standing == OrderStanding::Displayed;
    OrderView {
        order_id: order.order_id,
        client_order_id: order.client_order_id,
        session: order.session,
        account: order.account,
        instrument: order.instrument,
        side: order.side,
        standing,
        price: order.price().filter(|_| !order.is_waiting()),
        limit: order.limit,
        stop_price: order.stop_price,
        leaves_quantity: Quantity(order.open()),
        reserve_quantity: Quantity(if is_displayed { order.open() - order.shown } else { 0 }),
        minimum: order.minimum.map(|minimum| Quantity(minimum.min(order.open()))),
        cum_quantity: Quantity(order.cum),
        order_type: order.order_type,
        time_in_force: order.time_in_force,
        flags: order.flags,
        terms: order.terms,
        is_quote: order.quote,
    }
}

fn compare_instruments(exchange: &Exchange, oracle: &Oracle) -> Result<(), String> {
    same("seed", &exchange.seed(), &oracle.seed())?;
    for (id, theirs) in oracle.instruments() {
        let ours = exchange.instrument(*id).ok_or_else(|| format!("instrument {id} is missing"))?;
        same(&format!("instrument {id}"), &ours, &view_of_instrument(theirs))?;
        let depth = exchange.depth(*id, 1).ok_or("an instrument has no depth")?;
        if let (Some(bid), Some(ask)) = (depth.bids.first(), depth.asks.first())
            && ours.phase == Phase::Continuous
            && bid.price >= ask.price
        {
            return Err(format!("instrument {id} is crossed"));
        }
    }
    same("instruments", &exchange.instruments().count(), &oracle.instruments().len())
}

fn view_of_instrument(it: &Instrument) -> InstrumentView {
    let change = |(at, change): (&protocol::Timestamp, &Scheduled)| ChangeView {
        at: *at,
        phase: change.phase,
        delayed: change.delayed,
    };
    InstrumentView {
        phase: it.phase,
        stopped: false,
        last_price: it.last_trade,
        reference_price: it.reference,
        mark_price: it.mark,
        rules: it.rules,
        ticks: it.ticks,
        changes: it.schedule.iter().map(change).collect(),
        volatility_end: it.volatility.map(|(end, delayed)| ChangeView {
            at: delayed.unwrap_or(end),
            phase: Phase::Continuous,
            delayed: delayed.is_some(),
        }),
        indicative: it.indicative.filter(|told| told.price.is_some()),
    }
}

fn compare_accounts(exchange: &Exchange, oracle: &Oracle) -> Result<(), String> {
    let ours: Vec<AccountView> = exchange.accounts().collect();
    let theirs: Vec<AccountView> = oracle.accounts().values().map(|it| view_of_account(oracle, it)).collect();
    lists("account", &ours, &theirs)?;
    let ours: Vec<_> = exchange.currencies().map(|(code, scale, _, fees)| (code, scale, fees)).collect();
    lists("currency", &ours, &oracle.currencies().collect::<Vec<_>>())?;
    let ours: Vec<_> = exchange.fee_schedules().collect();
    lists("fees", &ours, &oracle.fee_schedules().collect::<Vec<_>>())?;
    let (venue, participants, _) = oracle.killed();
    same("venue's kill switch", &exchange.is_killed(), &venue)?;
    let ours: Vec<_> = exchange.participants().filter(|(_, killed)| *killed).map(|(id, _)| id).collect();
    lists("killed participant", &ours, &participants.iter().copied().collect::<Vec<_>>())
}

fn view_of_account(oracle: &Oracle, account: &Account) -> AccountView {
    let id = account.definition.account;
    let balance = |currency| BalanceView {
        currency,
        total: account.balances.get(&currency).copied().unwrap_or(0),
        held: oracle.held_of(id, currency),
    };
    let position = |instrument| {
        let position = account.positions.get(&instrument).copied().unwrap_or_default();
        let (buys, sells, open_orders, open_notional) = oracle.open_of(id, instrument);
        PositionView {
            instrument,
            quantity: position.quantity as i64,
            cost: position.cost,
            open_buy: buys as u64,
            open_sell: sells as u64,
            open_orders,
            open_notional,
        }
    };
    let is_something = |it: &PositionView| (it.quantity, it.cost, it.open_orders) != (0, 0, 0);
    AccountView {
        definition: account.definition,
        killed: oracle.killed().2.contains(&id),
        limits: account.limits.get(&None).copied().unwrap_or(Limits::default()),
        own_limits: account.limits.iter().filter_map(|(id, limits)| Some(((*id)?, *limits))).collect(),
        balances: oracle
            .currencies()
            .map(|(code, ..)| balance(code))
            .filter(|it| (it.total, it.held) != (0, 0))
            .collect(),
        positions: oracle.instruments().keys().map(|id| position(*id)).filter(is_something).collect(),
    }
}

fn compare_trades(exchange: &Exchange, oracle: &Oracle) -> Result<(), String> {
    // The engine keeps some that may be busted no more.
    let ours: Vec<TradeView> = exchange
        .kept_trades()
        .filter(|trade| !trade.busted && oracle.kept_trades().contains_key(&trade.trade_id))
        .collect();
    let theirs: Vec<TradeView> = oracle.kept_trades().iter().map(view_of_trade).collect();
    lists("kept trade", &ours, &theirs)
}

fn view_of_trade((trade_id, kept): (&TradeId, &Kept)) -> TradeView {
    let side = |side: &KeptSide| TradeSideView {
        session: side.session,
        client_order_id: side.client_order_id,
        account: side.account,
        fee: side.tracked.then_some(side.fee),
    };
    TradeView {
        trade_id: *trade_id,
        instrument: kept.instrument,
        price: kept.price,
        quantity: kept.quantity,
        busted: false,
        sides: [side(&kept.buyer), side(&kept.seller)],
    }
}

fn compare_controls(exchange: &Exchange, oracle: &Oracle) -> Result<(), String> {
    let now = exchange.log_time().0 / 1_000_000_000;
    for ours in exchange.controls() {
        let (orders, cancels) = if ours.second == now { (ours.orders, ours.cancels) } else { (0, 0) };
        let id: SessionId = ours.session;
        let controls = Some((ours.participant, ours.throttle, orders, cancels));
        same(&format!("controls of {id}"), &controls, &oracle.controls(id))?;
    }
    Ok(())
}

/// Whether an execution takes its quantity out of the depth by itself.
pub(crate) fn leaves_depth(liquidity: Liquidity) -> bool {
    liquidity == Liquidity::Maker
}
