//! Why things did not happen, or happened unasked: reasons of rejects, cancels, expiries, restatements, ends and refusals.

use std::fmt;

use crate::types::wire_enum;

wire_enum!(
    /// Why a request was refused by the business logic. The request had no other effect.
    RejectReason {
        /// The request id is not above the highest seen of its session.
        IdNotRising = 1 => "id_not_rising",
        /// The frame's connection is not the session's live one.
        NotLoggedIn = 2 => "not_logged_in",
        /// The session's role doesn't allow the request.
        NotAuthorized = 3 => "not_authorized",
        /// The frame did not decode.
        Malformed = 4 => "malformed",
        /// No such instrument.
        UnknownInstrument = 5 => "unknown_instrument",
        /// The instrument is halted.
        InstrumentHalted = 6 => "instrument_halted",
        /// The order is not there, is done, or is another session's.
        UnknownOrder = 7 => "unknown_order",
        /// The text client order id was used before on this trading day.
        DuplicateClOrdId = 8 => "duplicate_cl_ord_id",
        /// The quantity is zero.
        QuantityZero = 9 => "quantity_zero",
        /// The quantity is above the instrument's maximum.
        QuantityAboveMaximum = 10 => "quantity_above_maximum",
        /// The quantity is no multiple of the lot size.
        QuantityNotOnLot = 11 => "quantity_not_on_lot",
        /// The price is no multiple of the tick size.
        PriceNotOnTick = 12 => "price_not_on_tick",
        /// The price is outside the instrument's limits.
        PriceOutsideLimits = 13 => "price_outside_limits",
        /// The order is post-only and would take from the book.
        PostOnlyWouldTrade = 14 => "post_only_would_trade",
        /// The order's options contradict each other (a market order that is post-only, for one).
        OptionsConflict = 15 => "options_conflict",
        /// The venue does not offer an option of the order (yet).
        OptionNotOffered = 16 => "option_not_offered",
        /// The new total quantity is not above what was executed already.
        TooLate = 17 => "too_late",
        /// As many orders are live as the capacity allows.
        OrdersFull = 18 => "orders_full",
        /// As many price levels are in use as the capacity allows.
        LevelsFull = 19 => "levels_full",
        /// As many text ids were used today as the capacity allows.
        IdsFull = 20 => "ids_full",
        /// As many sessions exist as the capacity allows.
        SessionsFull = 21 => "sessions_full",
        /// As many instruments exist as the capacity allows.
        InstrumentsFull = 22 => "instruments_full",
        /// The instrument id or symbol exists already with another definition.
        InstrumentExists = 23 => "instrument_exists",
        /// The session id or user name exists already for another user.
        UserExists = 24 => "user_exists",
        /// No such user.
        UnknownUser = 25 => "unknown_user",
        /// A definition that can't work: tick or lot of zero, minimum above maximum, and the like.
        DefinitionInvalid = 26 => "definition_invalid",
        /// A capacity below what is in use, or above what the engine can hold.
        CapacityInvalid = 27 => "capacity_invalid",
        /// The order's side, as given with the request, is not the order's.
        SideMismatch = 28 => "side_mismatch",
        /// The instrument was stopped after an internal error was found in it; cancels work.
        InstrumentStopped = 29 => "instrument_stopped",
        /// The rulebook version is below the one in force.
        RulebookLower = 30 => "rulebook_lower",
        /// The instrument is closed or delisted.
        InstrumentClosed = 31 => "instrument_closed",
        /// The instrument takes cancels only.
        CancelOnly = 32 => "cancel_only",
        /// The order's type or time in force is not for the instrument's phase.
        NotInThisPhase = 33 => "not_in_this_phase",
        /// More messages in this second than the session may send.
        Throttled = 34 => "throttled",
        /// No such account, or another participant's.
        UnknownAccount = 35 => "unknown_account",
        /// The instrument settles, and the user has no participant whose account could.
        AccountRequired = 36 => "account_required",
        /// A kill switch is on.
        Killed = 37 => "killed",
        /// The quantity is below the instrument's minimum.
        QuantityBelowMinimum = 38 => "quantity_below_minimum",
        /// The display quantities are zero, off the lot, or too large.
        DisplayInvalid = 39 => "display_invalid",
        /// The minimum quantity is zero, off the lot, or above the quantity.
        MinimumInvalid = 40 => "minimum_invalid",
        /// The peg's offset is off the tick or negative.
        PegInvalid = 41 => "peg_invalid",
        /// The trail's distance is zero or off the tick.
        TrailInvalid = 42 => "trail_invalid",
        /// The expiry time has passed.
        ExpireTimePast = 43 => "expire_time_past",
        /// Quantity times price is below the instrument's minimum.
        NotionalBelowMinimum = 44 => "notional_below_minimum",
        /// Quantity times price is above the instrument's maximum.
        NotionalAboveMaximum = 45 => "notional_above_maximum",
        /// No live order of that id could be the parent.
        UnknownParent = 46 => "unknown_parent",
        /// The group or bracket has as many orders as it can.
        GroupFull = 47 => "group_full",
        /// There is no price that the order's own could be made from.
        NoReference = 48 => "no_reference",
        /// A reduce-only order that could make the position larger or turn it.
        ReduceOnlyWouldIncrease = 49 => "reduce_only_would_increase",
        /// Not enough of the currency is free.
        InsufficientFunds = 50 => "insufficient_funds",
        /// Equity is below the margin that would be required.
        InsufficientMargin = 51 => "insufficient_margin",
        /// The entries of a mass quote do not get worse from one to the next, or its two sides meet.
        QuoteInvalid = 52 => "quote_invalid",
        /// Above the account's limit of an order's quantity.
        LimitQuantity = 53 => "limit_quantity",
        /// Above the account's limit of an order's notional.
        LimitNotional = 54 => "limit_notional",
        /// As many orders are open as the account's limit allows.
        LimitOpenOrders = 55 => "limit_open_orders",
        /// The notional of open orders would exceed the account's limit.
        LimitOpenNotional = 56 => "limit_open_notional",
        /// The position could exceed the account's net limit.
        LimitNetPosition = 57 => "limit_net_position",
        /// The position could exceed the account's gross limit.
        LimitGrossPosition = 58 => "limit_gross_position",
        /// The price is too far from the reference price.
        PriceCollar = 59 => "price_collar",
        /// The same order came a moment ago.
        DuplicateOrder = 60 => "duplicate_order",
        /// The time of a scheduled phase has passed.
        SchedulePast = 61 => "schedule_past",
        /// As many phases of the instrument are scheduled as there can be.
        ScheduleFull = 62 => "schedule_full",
        /// No such trade of today that can be busted or corrected.
        UnknownTrade = 63 => "unknown_trade",
        /// An amount outside what can be held.
        AmountInvalid = 64 => "amount_invalid",
        /// As many accounts exist as the capacity allows.
        AccountsFull = 65 => "accounts_full",
        /// Accounts have positions in the instrument.
        PositionsOpen = 66 => "positions_open",
        /// No such currency.
        UnknownCurrency = 67 => "unknown_currency",
        /// The currency, account or user belongs to something else for good.
        AccountExists = 68 => "account_exists",
        /// As many orders of the instrument follow its prices, pegged or trailing, as can.
        FollowingFull = 69 => "following_full",
        /// The operators ordered the request to be skipped, since applying it ended the engine.
        Skipped = 120 => "skipped",
    }
);

wire_enum!(
    /// Why a live order was canceled.
    CancelReason {
        /// Its owner asked.
        Requested = 1 => "requested",
        /// Part of a mass cancel of its owner.
        MassCancel = 2 => "mass_cancel",
        /// Its session's connection ended and the session cancels on disconnect.
        Disconnected = 3 => "disconnected",
        /// An operator asked.
        Operator = 4 => "operator",
        /// A replace set its total quantity to what was executed already.
        ReplacedToExecuted = 5 => "replaced_to_executed",
        /// It would have traded with an order of its own group.
        SelfTrade = 6 => "self_trade",
        /// Another order of its group traded or ended, or its parent ended without a trade.
        Group = 7 => "group",
        /// The position that it was to reduce became smaller.
        ReduceOnly = 8 => "reduce_only",
        /// A newer mass quote replaced it.
        QuoteReplaced = 9 => "quote_replaced",
        /// A kill switch.
        KillSwitch = 10 => "kill_switch",
        /// The instrument was delisted.
        Delisted = 11 => "delisted",
        /// A triggered buy that the account can't pay.
        InsufficientFunds = 12 => "insufficient_funds",
    }
);

wire_enum!(
    /// Why an order, or what was left of it, expired.
    ExpireReason {
        /// What an immediate-or-cancel order could not trade.
        ImmediateOrCancel = 1 => "immediate_or_cancel",
        /// A fill-or-kill order that could not trade whole.
        FillOrKill = 2 => "fill_or_kill",
        /// What a market order found no counterparty for.
        NoLiquidity = 3 => "no_liquidity",
        /// The trading day ended.
        EndOfDay = 4 => "end_of_day",
        /// The minimum quantity could not trade at once.
        MinimumQuantity = 5 => "minimum_quantity",
        /// Its expiry time came.
        Expired = 6 => "expired",
        /// The auction that it was for is over.
        AuctionEnd = 7 => "auction_end",
        /// The next trade would have been outside a price band.
        PriceBand = 8 => "price_band",
    }
);

wire_enum!(
    /// Why an order was restated.
    RestateReason {
        /// An order goes on in the new trading day.
        NewDay = 1 => "new_day",
        /// A post-only order was given a price at which it does not trade.
        Slid = 2 => "slid",
        /// An order without a price comes to rest at one.
        Priced = 3 => "priced",
        /// Self-trade prevention took quantity from it.
        Decremented = 4 => "decremented",
        /// Its quantity became what its parent has executed.
        Resized = 5 => "resized",
    }
);

wire_enum!(
    /// Why the business logic refused a login.
    LoginRefusal {
        /// The user is unknown or disabled.
        UnknownUser = 1 => "unknown_user",
        /// The session has a live connection.
        AlreadyLoggedIn = 2 => "already_logged_in",
    }
);

wire_enum!(
    /// Why a connection ended.
    EndReason {
        /// The client logged out.
        Logout = 1 => "logout",
        /// The socket closed.
        Closed = 2 => "closed",
        /// Nothing was heard for the silence limit.
        Silent = 3 => "silent",
        /// The client broke the protocol.
        Protocol = 4 => "protocol",
        /// The client read too slowly.
        SlowReader = 5 => "slow_reader",
        /// An operator disconnected or disabled the user.
        Operator = 6 => "operator",
        /// The server stops, starts, or lost leadership.
        Server = 7 => "server",
        /// The trading day ended.
        EndOfDay = 8 => "end_of_day",
    }
);

wire_enum!(
    /// Why a gateway refused a request. It is not in the log; nothing happened.
    RefuseReason {
        /// The frame does not decode.
        Malformed = 1 => "malformed",
        /// More messages a second than the session may send.
        Throttled = 2 => "throttled",
        /// The disk is nearly full: only cancels are taken.
        DiskFull = 3 => "disk_full",
        /// This member doesn't lead.
        NotLeader = 4 => "not_leader",
        /// The server is stopping.
        Stopping = 5 => "stopping",
        /// A kind of frame that clients may not send.
        NotAllowed = 6 => "not_allowed",
        /// No such instrument (queries).
        UnknownInstrument = 7 => "unknown_instrument",
        /// The server doesn't know this version of the rulebook and would have to stop at it.
        RulebookUnknown = 8 => "rulebook_unknown",
        /// There is no such day or number of reports (drop copies).
        ReportsUnavailable = 9 => "reports_unavailable",
    }
);
